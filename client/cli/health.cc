#include "client/cli/health.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "proto/status_codec.h"

namespace embedding::client {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

std::string StateName(const HealthCheckResponse& response) {
  return HealthCheckResponse::ServingStatus_Name(response.status());
}

HealthCheckRequest RequestFor(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

absl::Status Explained(const grpc::Status& status, const ClientOptions& options, const std::string& service) {
  absl::Status plain = FromGrpcStatus(status);
  if (absl::IsUnavailable(plain)) {
    return absl::UnavailableError(absl::StrCat("cannot reach ", options.address, ": ", plain.message()));
  }
  if (absl::IsDeadlineExceeded(plain)) {
    return absl::DeadlineExceededError(absl::StrCat("no answer from ", options.address, " in time"));
  }
  if (absl::IsNotFound(plain)) {
    return absl::NotFoundError(absl::StrCat("the server has no health service \"", Escaped(service), "\""));
  }
  return plain;
}

}  // namespace

absl::StatusOr<std::string> CheckHealth(const ClientOptions& options, const std::string& service) {
  const std::unique_ptr<Health::Stub> stub = Health::NewStub(CreateClientChannel(options));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options.deadline);
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, RequestFor(service), &response);
  if (!status.ok()) return Explained(status, options, service);
  return StateName(response);
}

absl::Status WatchHealth(const ClientOptions& options, const std::string& service,
                         std::optional<std::chrono::milliseconds> duration,
                         absl::FunctionRef<void(const std::string&)> on_state) {
  const std::unique_ptr<Health::Stub> stub = Health::NewStub(CreateClientChannel(options));
  grpc::ClientContext context;
  if (duration) context.set_deadline(std::chrono::system_clock::now() + *duration);
  const std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader = stub->Watch(&context, RequestFor(service));
  HealthCheckResponse response;
  while (reader->Read(&response)) on_state(StateName(response));
  return Explained(reader->Finish(), options, service);
}

}  // namespace embedding::client
