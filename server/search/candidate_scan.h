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

// What one query of a pass is to find. Borrows all it points to.
struct RowsWanted {
  const EligibleRows* eligible;       // without a list
  int64_t k;                          // in [1, num_rows]
  std::span<const int64_t> excluded;  // ascending
  float tau;                          // no row of a lower closeness is wanted; -infinity: all are
  const StopPoll* stop;               // once it has stopped, nothing is wanted any more
};

// Lanes may run at the same time on different threads; Survivors after all lanes ended.
class CandidateScan {
 public:
  // Scans rows [begin, end), which hold all eligible ones. wanted: for each query of the pass, in its order, at least
  // one. dim: of the rows. stop: asked between blocks, ends the scan.
  CandidateScan(std::unique_ptr<const CandidatePass> pass, int64_t dim, int64_t begin, int64_t end,
                std::vector<RowsWanted> wanted, int num_lanes, StopPredicate stop);

  void RunLane(int lane);

  // Ids that contain the k closest eligible rows of a query, each once, in no order: survivors of the pass and all rows
  // that it could not judge. nullopt if too many rows lie within the margin of each other. Without meaning once the
  // query's poll has stopped. Call once per query; calls for different queries may run at the same time.
  std::optional<std::vector<int64_t>> Survivors(size_t query);

  int64_t blocks_scanned() const { return blocks_scanned_.load(std::memory_order_relaxed); }
  // By every query.
  int64_t rows_scanned() const { return rows_scanned_.load(std::memory_order_relaxed); }

 private:
  bool MayFind(size_t query, int64_t row) const;
  // A tau from rows [begin, end), which were scored last: the k-th best lower bound among the first few. -infinity
  // where there are too few.
  float FirstTau(size_t query, const CandidatePass::Lane& lane, int64_t begin, int64_t end) const;

  const std::unique_ptr<const CandidatePass> pass_;
  const std::vector<RowsWanted> wanted_;
  const StopPredicate stop_;
  BlockCounter blocks_;
  std::vector<std::vector<CandidateReservoir>> reservoirs_;  // [num_lanes][num_queries]
  std::vector<std::atomic<float>> tau_;                      // [num_queries]: the best of all lanes
  std::vector<std::atomic<bool>> gave_up_;                   // [num_queries]: too many survivors
  std::atomic<int64_t> blocks_scanned_{0};
  std::atomic<int64_t> rows_scanned_{0};
  std::atomic<size_t> queries_given_up_{0};
};

}  // namespace embedding
