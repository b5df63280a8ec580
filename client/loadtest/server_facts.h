// What a load test must know of the server before it starts.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/loadtest/options.h"
#include "client/loadtest/reference.h"
#include "embedding/v1/embedding.grpc.pb.h"
#include "grpcpp/channel.h"

namespace embedding::loadtest {

struct ServerFacts {
  v1::GetServerInfoResponse info;
  v1::TableInfo table;
};

// Asks for both. Errors: those of the calls, with the address in the message.
absl::StatusOr<ServerFacts> AskServer(const std::shared_ptr<grpc::Channel>& channel, const LoadTestOptions& options);

// INVALID_ARGUMENT when the options ask for calls that the server's limits forbid; names flag, value and limit.
absl::Status CheckLimits(const LoadTestOptions& options, const ServerFacts& facts);

// Fetches every row of the table, one row per call, several calls at a time. Errors: those of the calls; INTERNAL for
// an answer that is not the row; CANCELLED when `stop` was set.
absl::StatusOr<std::unique_ptr<ReferenceTable>> FetchReference(const std::shared_ptr<grpc::Channel>& channel,
                                                               const LoadTestOptions& options,
                                                               const v1::TableInfo& table,
                                                               const std::atomic<bool>& stop);

}  // namespace embedding::loadtest
