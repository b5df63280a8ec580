// Exact neighbours by a blocked scan: the reference for every other index.
#pragma once

#include <memory>

#include "server/exec/worker_pool.h"
#include "server/search/neighbour_index.h"
#include "server/table/embedding_table.h"

namespace embedding {

// Borrows the table, which must outlive the index. Computes the norms of the rows on the pool (4 bytes a row); not to
// be called from one of its workers. Rows that are not finite are never returned.
std::unique_ptr<NeighbourIndex> BuildExactIndex(const EmbeddingTable& table, WorkerPool& pool);

}  // namespace embedding
