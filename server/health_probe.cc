#include "server/health_probe.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/status_codec.h"

namespace embedding {
namespace {

constexpr int kNotServing = 4;
constexpr int kGrpcStatusBase = 64;

}  // namespace

ProbeResult ProbeHealth(const std::string& address, const std::string& service, std::chrono::milliseconds timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (!status.ok()) {
    return {kGrpcStatusBase + status.error_code(),
            absl::StrCat(address, ": gRPC status ", static_cast<int>(status.error_code()), ": ",
                         Escaped(status.error_message(), 512))};
  }
  const std::string& state = grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status());
  return {response.status() == grpc::health::v1::HealthCheckResponse::SERVING ? 0 : kNotServing, state};
}

std::string ReachableAddress(const std::string& address) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "0.0.0.0:")) return absl::StrCat("127.0.0.1:", rest);
  if (absl::ConsumePrefix(&rest, "[::]:")) return absl::StrCat("[::1]:", rest);
  return address;
}

}  // namespace embedding
