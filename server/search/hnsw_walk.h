// One walk through a graph of rows, from its entry to the rows closest to a query.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "server/search/hnsw_graph.h"
#include "server/search/scan_blocks.h"
#include "server/search/score.h"
#include "server/table/embedding_table.h"
#include "server/table/table_memory.h"

namespace embedding {

// The query of a walk, as float32: a unit vector for cosine and dot, whose order of rows is the same for every length.
class WalkQuery {
 public:
  // vector: [dim], finite. usable() is false for lengths outside [kMinNorm, kMaxNorm] (row_norms.h), zero among them,
  // beside which float32 could overflow or tell nothing.
  WalkQuery(Metric metric, VectorView vector, int64_t dim);

  bool usable() const { return usable_; }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
  bool usable_ = false;
};

// Working memory of walks through one graph, one at a time.
class HnswWalk {
 public:
  // (closeness in float32, higher is closer; row).
  using Found = std::pair<float, uint32_t>;

  // All are borrowed. inverse_norms as in HnswOutsiders.
  HnswWalk(const EmbeddingTable& table, const HnswGraph& graph, const std::vector<float>& inverse_norms);

  // The closest rows found, at most `effort` of them, in no order, of those that may_keep lets through; the walk leads
  // through the others as well. may_keep is asked at most once for each row. Ends early, with less, when stop says so.
  // Valid until the next call. effort >= 1, the graph is not empty, the query is usable.
  template <typename MayKeep>
  const std::vector<Found>& Run(const WalkQuery& query, size_t effort, const MayKeep& may_keep, StopPoll& stop);

  // Rows whose closeness was computed, in all walks so far.
  int64_t rows_scored() const { return rows_scored_; }

 private:
  uint32_t Descend(const WalkQuery& query, float* closeness);
  // Computes closeness_ of ids_.
  void Score(const WalkQuery& query);
  void ForgetVisits();
  bool Visit(uint32_t row) {
    if (visits_[row] == epoch_) return false;
    visits_[row] = epoch_;
    return true;
  }
  // Puts the unvisited rows of a list into ids_.
  void TakeUnvisited(const uint32_t* list);

  const EmbeddingTable& table_;
  const HnswGraph& graph_;
  const std::vector<float>& inverse_norms_;
  std::vector<uint16_t> visits_;  // [num_rows]: the walk that last came by
  TableMemoryClaim memory_;       // for visits_
  uint16_t epoch_ = 0;
  std::vector<uint32_t> ids_;
  std::vector<const void*> addresses_;
  std::vector<float> closeness_;
  std::vector<Found> frontier_;  // a heap, the closest first
  std::vector<Found> best_;      // a heap, the farthest first
  int64_t rows_scored_ = 0;
};

template <typename MayKeep>
const std::vector<HnswWalk::Found>& HnswWalk::Run(const WalkQuery& query, size_t effort, const MayKeep& may_keep,
                                                  StopPoll& stop) {
  const auto is_closer = [](const Found& a, const Found& b) { return a.first > b.first; };
  ForgetVisits();
  frontier_.clear();
  best_.clear();
  float closeness = 0;
  const uint32_t entry = Descend(query, &closeness);
  Visit(entry);
  frontier_.emplace_back(closeness, entry);
  if (may_keep(entry)) best_.emplace_back(closeness, entry);
  while (!frontier_.empty() && !stop.ShouldStop()) {
    const auto [nearest, row] = frontier_.front();
    if (best_.size() == effort && nearest < best_.front().first) break;
    std::pop_heap(frontier_.begin(), frontier_.end());
    frontier_.pop_back();
    TakeUnvisited(graph_.Links(row));
    Score(query);
    for (size_t i = 0; i < ids_.size(); ++i) {
      const Found found(closeness_[i], ids_[i]);
      if (best_.size() == effort && found.first <= best_.front().first) continue;
      frontier_.push_back(found);
      std::push_heap(frontier_.begin(), frontier_.end());
      if (!may_keep(found.second)) continue;
      best_.push_back(found);
      std::push_heap(best_.begin(), best_.end(), is_closer);
      if (best_.size() <= effort) continue;
      std::pop_heap(best_.begin(), best_.end(), is_closer);
      best_.pop_back();
    }
  }
  return best_;
}

}  // namespace embedding
