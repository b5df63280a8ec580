// One approximate search from its queries to their neighbours, as jobs on the pool.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/exec/mutex.h"
#include "server/exec/worker_pool.h"
#include "server/search/hnsw_graph.h"
#include "server/search/hnsw_rows.h"
#include "server/search/hnsw_walk.h"
#include "server/search/neighbour_index.h"
#include "server/search/row_filter.h"
#include "server/search/scan_blocks.h"

namespace embedding {

// Walks that wait for the next search, so that the memory of a visit to each row is not made anew. Thread-safe.
class WalkStore {
 public:
  WalkStore(const HnswRows& rows, const HnswGraph& graph) : rows_(rows), graph_(graph) {}

  std::unique_ptr<HnswWalk> Take();
  void Return(std::unique_ptr<HnswWalk> walk);

 private:
  const HnswRows& rows_;
  const HnswGraph& graph_;
  Mutex mutex_;
  std::vector<std::unique_ptr<HnswWalk>> idle_ ABSL_GUARDED_BY(mutex_);
};

class HnswSearch : public std::enable_shared_from_this<HnswSearch> {
 public:
  // What is searched. All of it, and the pool, live until done was called, which happens exactly once.
  struct Rows {
    const EmbeddingTable& table;
    const HnswGraph& graph;
    const HnswOutsiders& outsiders;
    const HnswRows& judged;
    const NeighbourIndex& exact;
    WalkStore& walks;
  };

  // query.effort is set, query.metric is the graph's, which is not empty.
  static void Start(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                    std::function<void(NeighbourResult)> done);

  HnswSearch(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
             std::function<void(NeighbourResult)> done);

 private:
  void Begin();
  // Whether walks would come by about as many rows as there are.
  bool ScanIsNoMoreWork() const;
  // One of num_lanes: takes queries until none is left.
  void WalkQueries(int num_lanes);
  // The same where every row may be kept: the walks take turns.
  void WalkInTurns(std::span<const std::unique_ptr<HnswWalk>> walks);
  // The same with a filter, one query after the other.
  void WalkAmong(HnswWalk& walk);
  // Scores what a walk found. False: the exact search has to answer.
  bool Answer(size_t query, std::span<const WalkedRow> found, const HnswQuery& walked);
  bool MayFind(size_t query, int64_t row) const;
  // Whether the row or one of its twins may be found.
  bool MayKeep(size_t query, uint32_t row) const;
  // Those of the rows found whose true closeness may be among the k best of them.
  std::vector<WalkedRow> Narrow(size_t query, std::span<const WalkedRow> found, const HnswQuery& walked) const;
  // Such rows, their twins and the rows outside of the graph, as far as they may be found.
  std::vector<int64_t> Candidates(size_t query, const std::vector<WalkedRow>& found) const;
  void AskExactSearch();
  void Finish();

  const Rows rows_;
  NeighbourQuery query_;
  WorkerPool& pool_;
  StopPoll stop_;
  std::function<void(NeighbourResult)> done_;
  NeighbourResult result_;
  std::optional<EligibleRows> eligible_;
  int64_t k_ = 0;  // at most the number of eligible rows
  std::optional<BlockCounter> counter_;
  std::vector<uint8_t> is_exact_;  // [num_queries]: 1 for those left to the exact search
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  std::atomic<int64_t> rows_scanned_{0};
};

}  // namespace embedding
