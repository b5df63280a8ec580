#include "client/sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "grpc/support/time.h"
#include "proto/status_codec.h"

namespace embedding::client {
namespace {

using std::chrono::steady_clock;

// By the monotonic clock, so that a wall clock that is set ends no call.
gpr_timespec GrpcDeadline(steady_clock::time_point at) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(at - steady_clock::now());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(std::max<int64_t>(left.count(), 0), GPR_TIMESPAN));
}

std::optional<std::chrono::milliseconds> PushbackOf(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find(kRetryPushbackHeader);
  if (found == metadata.end()) return std::nullopt;
  int64_t milliseconds = 0;
  // A value that is no number means: do not retry (gRPC proposal A6).
  if (!absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &milliseconds))
    milliseconds = -1;
  return std::chrono::milliseconds(milliseconds);
}

// The server's own errors pass as they are; what gRPC says for itself lacks the address.
absl::Status Explained(const absl::Status& status, const ClientOptions& options, const Deadline& deadline) {
  if (!DetailsOf(status).reason.empty()) return status;
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(absl::StrCat("cannot reach ", options.address, ": ", status.message()));
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(
        absl::StrCat("no full answer from ", options.address, " within ", deadline.length.count(), " ms"));
  }
  return status;
}

}  // namespace

Sender::Sender(const ClientOptions& options) : options_(options), policy_{.max_attempts = options.max_attempts} {
  const std::shared_ptr<grpc::Channel> channel = CreateClientChannel(options);
  embedding_ = v1::EmbeddingService::NewStub(channel);
  tables_ = v1::TableService::NewStub(channel);
  admin_ = v1::TableAdminService::NewStub(channel);
}

Deadline Sender::DeadlineFor(const CallOptions& call) const {
  const std::chrono::milliseconds length = call.deadline.value_or(options_.deadline);
  return {steady_clock::now() + length, length};
}

absl::Status Sender::SendAttempts(const Deadline& deadline,
                                  absl::FunctionRef<grpc::Status(grpc::ClientContext&)> attempt) {
  const absl::Status status = CallWithRetries(policy_, deadline.at, world_, budget_, [&]() -> AttemptOutcome {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(deadline.at));
    absl::Status outcome = FromGrpcStatus(attempt(context));
    if (outcome.ok()) return {outcome, std::nullopt};
    return {std::move(outcome), PushbackOf(context)};
  });
  return Explained(status, options_, deadline);
}

absl::Status Sender::SendAttempt(const Deadline& deadline,
                                 absl::FunctionRef<grpc::Status(grpc::ClientContext&)> attempt) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(deadline.at));
  return Explained(FromGrpcStatus(attempt(context)), options_, deadline);
}

}  // namespace embedding::client
