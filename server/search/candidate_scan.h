// One candidate pass over the table for a group of queries: what stays of each query's rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/search/candidate_pass.h"
#include "server/search/candidate_reservoir.h"
#include "server/search/row_filter.h"
#include "server/search/scan_blocks.h"

namespace embedding {

// Borrows the eligible rows, the exclusions and the poll. Lanes may run at the same time on different threads;
// Survivors after all lanes ended.
class CandidateScan {
 public:
  struct Query {
    std::span<const int64_t> excluded;  // ascending
    float tau;                          // no row of a lower closeness is wanted; -infinity: all are
  };

  // k in [1, num_rows]; the queries are those of the pass, in its order; the eligible rows have no list. dim: of the
  // rows.
  CandidateScan(std::unique_ptr<const CandidatePass> pass, int64_t dim, const EligibleRows& eligible, int64_t k,
                std::vector<Query> queries, int num_lanes, StopPoll& stop);

  void RunLane(int lane);

  // Ids that contain the k closest eligible rows of a query, each once, in no order: survivors of the pass and all rows
  // that it could not judge. nullopt if too many rows lie within the margin of each other. Call once per query; calls
  // for different queries may run at the same time.
  std::optional<std::vector<int64_t>> Survivors(size_t query);

  int64_t blocks_scanned() const { return blocks_scanned_.load(std::memory_order_relaxed); }
  int64_t rows_scanned() const { return rows_scanned_.load(std::memory_order_relaxed); }

 private:
  bool MayFind(size_t query, int64_t row) const;

  const std::unique_ptr<const CandidatePass> pass_;
  const EligibleRows& eligible_;
  const int64_t k_;
  const std::vector<Query> queries_;
  StopPoll& stop_;
  BlockCounter blocks_;
  std::vector<std::vector<CandidateReservoir>> reservoirs_;  // [num_lanes][num_queries]
  std::vector<std::atomic<float>> tau_;                      // [num_queries]: the best of all lanes
  std::vector<std::atomic<bool>> gave_up_;                   // [num_queries]: too many survivors
  std::atomic<int64_t> blocks_scanned_{0};
  std::atomic<int64_t> rows_scanned_{0};
  std::atomic<size_t> queries_given_up_{0};
};

}  // namespace embedding
