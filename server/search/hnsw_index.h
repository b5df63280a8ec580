// Approximate neighbours by a walk through a graph of the rows, with exact scores; exact neighbours beside them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/search/hnsw_graph.h"
#include "server/search/neighbour_index.h"
#include "server/table/embedding_table.h"

namespace embedding {

// What approximate searches need beside the table.
struct HnswParts {
  HnswOutsiders outsiders;
  HnswRows rows;
  HnswGraph graph;
  GraphFacts facts;
};

// Reads the table and builds the graph on all threads of the pool; not to be called from one of its workers. Errors as
// BuildHnswGraph.
absl::StatusOr<HnswParts> BuildHnswParts(const EmbeddingTable& table, const HnswParameters& parameters,
                                         WorkerPool& pool, const StopPredicate& stop = {},
                                         const HnswProgress& progress = {});

// The same with the graph of a file (hnsw_file.h) of this table. Errors as ReadHnswFile, DATA_LOSS also for links to
// rows that are not in the graph; CANCELLED as above.
absl::StatusOr<HnswParts> ReadHnswParts(const EmbeddingTable& table, const std::string& path,
                                        const HnswParameters& parameters, WorkerPool& pool,
                                        const StopPredicate& stop = {});

// An index of an exact one and a graph, all of one table, which outlives them.
//
// Searches with an effort, by the graph's metric, walk through the graph; their neighbours have canonical scores, in
// the canonical order, and without a threshold are as many as those of an exact search. The exact search answers
// instead, and the result says so, where that is no more work (the walk would come by most rows: a small table, a high
// effort, a filter that leaves few rows), for queries that float32 cannot judge (of length 0, or outside [kMinNorm,
// kMaxNorm]), and where the walk found too few rows. All other searches are exact.
std::unique_ptr<NeighbourIndex> MakeHnswIndex(const EmbeddingTable& table, std::unique_ptr<NeighbourIndex> exact,
                                              HnswParts parts);

}  // namespace embedding
