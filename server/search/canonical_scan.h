// The full scan by canonical scores: what answers where the candidate pass has no useful bound.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/search/candidate_scan.h"
#include "server/search/scan_blocks.h"
#include "server/search/score.h"
#include "server/search/top_k.h"
#include "server/table/embedding_table.h"

namespace embedding {

// Borrows the table and what the queries point to. Lanes may run at the same time on different threads; Take after all
// lanes ended.
class CanonicalScan {
 public:
  struct Query {
    const CanonicalQuery* query;
    RowsWanted wanted;               // its tau is not read
    std::optional<float> threshold;  // of a score, finite
  };

  // Scans rows [begin, end), which hold all eligible ones. At least one query, all of the metric. stop: asked between
  // blocks, ends the scan.
  CanonicalScan(const EmbeddingTable& table, int64_t begin, int64_t end, Metric metric, std::vector<Query> queries,
                int num_lanes, StopPredicate stop);

  void RunLane(int lane);

  // The k closest eligible rows of a query, closest first. Call once per query; calls for different queries may run at
  // the same time.
  std::vector<Neighbour> Take(size_t query);

  int64_t blocks_scanned() const { return blocks_scanned_.load(std::memory_order_relaxed); }
  // By every query.
  int64_t rows_scored() const { return rows_scored_.load(std::memory_order_relaxed); }

 private:
  bool MayFind(const Query& query, const Neighbour& entry) const;

  const EmbeddingTable& table_;
  const Metric metric_;
  const std::vector<Query> queries_;
  const StopPredicate stop_;
  BlockCounter blocks_;
  std::vector<std::vector<TopK>> best_;  // [num_lanes][num_queries]
  std::atomic<int64_t> blocks_scanned_{0};
  std::atomic<int64_t> rows_scored_{0};
};

}  // namespace embedding
