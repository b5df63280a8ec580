// The door to the room: a path and its options in, a checked table out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/table/embedding_table.h"
#include "server/table/table_options.h"

namespace embedding {

// Told now and then while bytes arrive, from any worker thread, one call at a time. done and total in bytes of rows.
using LoadProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// Reads the table that the options name, strictly, in parallel on the pool (not from one of its workers).
// Errors: DATA_LOSS for a file that is missing, is no regular file, is not what it should be, or changed while being
// read; INVALID_ARGUMENT for options that do not fit the format; RESOURCE_EXHAUSTED if the system has no memory for the
// rows. The message starts with the path, names the tensor, row or line, what was found and what was wanted, on one
// line.
absl::StatusOr<std::unique_ptr<EmbeddingTable>> LoadTable(const TableOptions& options, const TableLimits& limits,
                                                          WorkerPool& pool, const LoadProgress& progress = {});

}  // namespace embedding
