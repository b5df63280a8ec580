// Sends one request: deadline, attempts, and the error as the caller should see it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/client_options.h"
#include "client/retry.h"
#include "client/types.h"
#include "embedding/v1/embedding.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace embedding::client {

// When a call's time is over, and how long it had.
struct Deadline {
  std::chrono::steady_clock::time_point at;
  std::chrono::milliseconds length;
};

// Blocking and thread-safe. Calls are made by the stubs' blocking methods, each on its own completion queue: the
// threads of gRPC 1.51's callback interface sleep for up to 100 ms when they were idle.
class Sender {
 public:
  explicit Sender(const ClientOptions& options);

  // Starts a call's clock.
  Deadline DeadlineFor(const CallOptions& call) const;

  // method: a blocking method of one of the stubs. The status carries the server's details. UNAVAILABLE and
  // DEADLINE_EXCEEDED that do not come from the server name the address.
  template <typename Stub, typename Request, typename Response>
  absl::Status Send(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, const Deadline& deadline, Response& response) {
    Stub& stub = StubOf(static_cast<Stub*>(nullptr));
    return SendAttempts(deadline, [&](grpc::ClientContext& context) {
      response.Clear();
      return (stub.*method)(&context, request, &response);
    });
  }

  // The same for what must not be done twice: one attempt.
  template <typename Stub, typename Request, typename Response>
  absl::Status SendOnce(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                        const Request& request, const Deadline& deadline, Response& response) {
    Stub& stub = StubOf(static_cast<Stub*>(nullptr));
    return SendAttempt(deadline,
                       [&](grpc::ClientContext& context) { return (stub.*method)(&context, request, &response); });
  }

  // A stream that begins at once. context: outlives it.
  std::unique_ptr<grpc::ClientReaderWriter<v1::LookupStreamRequest, v1::LookupStreamResponse>> OpenLookupStream(
      grpc::ClientContext& context) {
    return embedding_->LookupStream(&context);
  }

 private:
  v1::EmbeddingService::Stub& StubOf(v1::EmbeddingService::Stub*) { return *embedding_; }
  v1::TableService::Stub& StubOf(v1::TableService::Stub*) { return *tables_; }
  v1::TableAdminService::Stub& StubOf(v1::TableAdminService::Stub*) { return *admin_; }

  absl::Status SendAttempts(const Deadline& deadline, absl::FunctionRef<grpc::Status(grpc::ClientContext&)> attempt);

  absl::Status SendAttempt(const Deadline& deadline, absl::FunctionRef<grpc::Status(grpc::ClientContext&)> attempt);

  const ClientOptions options_;
  const RetryPolicy policy_;
  const RetryWorld world_ = RetryWorld::Real();
  RetryBudget budget_;
  std::unique_ptr<v1::EmbeddingService::Stub> embedding_;
  std::unique_ptr<v1::TableService::Stub> tables_;
  std::unique_ptr<v1::TableAdminService::Stub> admin_;
};

}  // namespace embedding::client
