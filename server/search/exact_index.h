// Exact neighbours by a blocked scan: the reference for every other index.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/search/exact_rows.h"
#include "server/search/neighbour_index.h"
#include "server/table/embedding_table.h"

namespace embedding {

// As below, with codes of the rows (a byte an element and 8 bytes a row more), which make searches faster and change no
// answer. RESOURCE_EXHAUSTED if the system has no memory for them; CANCELLED once stop, asked between blocks from any
// worker, says so. share_passes: searches that wait for each other share passes over the table (shared_passes.h), which
// changes no answer; false to compare with.
absl::StatusOr<std::unique_ptr<NeighbourIndex>> BuildExactIndex(const EmbeddingTable& table, bool with_codes,
                                                                WorkerPool& pool, const StopPredicate& stop = {},
                                                                bool share_passes = true);

// As above, of rows that were looked at before: rows are the table's.
std::unique_ptr<NeighbourIndex> BuildExactIndex(const EmbeddingTable& table, ExactRows rows, bool share_passes = true);

// Borrows the table, which must outlive the index. Computes the norms of the rows on the pool (4 bytes a row); not to
// be called from one of its workers. Rows that are not finite are never returned.
std::unique_ptr<NeighbourIndex> BuildExactIndex(const EmbeddingTable& table, WorkerPool& pool);

}  // namespace embedding
