// reload, rollback, unload: one call each that changes what a server serves.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/flags.h"
#include "client/embedding_client.h"
#include "client/types.h"

namespace embedding::client {

// What a reload asks for; INVALID_ARGUMENT for an option that is not key=value, or is given twice.
absl::StatusOr<LoadTableRequest> ReadLoadTable(const Command& command);

// Carries out a command of one of the three kinds; gives the table as it is then. NOT_FOUND: a roll-back without a
// version, and none in memory is below the serving one.
absl::StatusOr<TableInfo> RunTableChange(const Command& command, const LoadTableRequest& request,
                                         EmbeddingClient& client, const CallOptions& call);

}  // namespace embedding::client
