// The full scan by canonical scores: what answers where the candidate pass has no useful bound.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/search/row_filter.h"
#include "server/search/scan_blocks.h"
#include "server/search/score.h"
#include "server/search/top_k.h"
#include "server/table/embedding_table.h"

namespace embedding {

// Borrows the table, the eligible rows, the queries with their exclusions, and the poll. Lanes may run at the same time
// on different threads; Take after all lanes ended.
class CanonicalScan {
 public:
  struct Query {
    const CanonicalQuery* query;
    std::span<const int64_t> excluded;  // ascending
  };

  // k >= 0; the eligible rows have no list; threshold: of a score, finite.
  CanonicalScan(const EmbeddingTable& table, const EligibleRows& eligible, Metric metric, int64_t k,
                std::optional<float> threshold, std::vector<Query> queries, int num_lanes, StopPoll& stop);

  void RunLane(int lane);

  // The k closest eligible rows of a query, closest first. Call once per query; calls for different queries may run at
  // the same time.
  std::vector<Neighbour> Take(size_t query);

  int64_t blocks_scanned() const { return blocks_scanned_.load(std::memory_order_relaxed); }
  int64_t rows_scored() const { return rows_scored_.load(std::memory_order_relaxed); }

 private:
  bool MayFind(const Query& query, const Neighbour& entry) const;

  const EmbeddingTable& table_;
  const EligibleRows& eligible_;
  const Metric metric_;
  const std::optional<float> threshold_;
  const std::vector<Query> queries_;
  StopPoll& stop_;
  BlockCounter blocks_;
  std::vector<std::vector<TopK>> best_;  // [num_lanes][num_queries]
  std::atomic<int64_t> blocks_scanned_{0};
  std::atomic<int64_t> rows_scored_{0};
};

}  // namespace embedding
