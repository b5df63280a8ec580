// One walk through a graph of rows, from its entry to the rows closest to a query.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "server/search/hnsw_graph.h"
#include "server/search/hnsw_rows.h"
#include "server/search/scan_blocks.h"
#include "server/table/table_memory.h"

namespace embedding {

// A row that a walk came by.
struct WalkedRow {
  float closeness = 0;  // hnsw_rows.h
  uint32_t row = 0;     // on a level above the lowest: its number there
};

// The order of walks: closest first, equal ones by lower id, so that it does not depend on who came first.
inline bool IsWalkedFirst(const WalkedRow& a, const WalkedRow& b) {
  return a.closeness != b.closeness ? a.closeness > b.closeness : a.row < b.row;
}

// Working memory of walks through one graph, one at a time.
class HnswWalk {
 public:
  // Both are borrowed.
  HnswWalk(const HnswRows& rows, const HnswGraph& graph);

  // Of the rows; to be set before a walk.
  HnswQuery& query() { return query_; }

  // A walk in steps, so that several can take turns: what one asks of memory comes while the others work.
  //   walk.Start(effort); while (walk.Follow()) walk.Take(); then walk.found()
  // effort >= 1, the graph is not empty.
  void Start(size_t effort);
  // Takes up the links of the closest row that was not followed yet, and asks for the memory of the rows they lead to.
  // False: there is none, the walk is over.
  bool Follow();
  // Judges these rows, and asks for the memory of the lists that come next.
  void Take();
  // The closest rows found so far, at most `effort` of them, closest first, once Follow said false; valid until the
  // next walk.
  std::span<const WalkedRow> found() const { return {pool_.data(), pool_size_}; }

  // The closest rows, at most `effort`, of those that may_keep lets through, in no order; the walk leads through the
  // others as well. may_keep is asked at most once for each row. Ends early, with less, when stop says so. Valid until
  // the next call.
  template <typename MayKeep>
  std::span<const WalkedRow> RunAmong(size_t effort, const MayKeep& may_keep, StopPoll& stop);

  // For building: the closest row to be reached from `from` by steps that come closer, on a level; both are numbers of
  // that level.
  WalkedRow Climb(size_t level, WalkedRow from);
  // The closest rows of a level to be reached from `from`, as found().
  std::span<const WalkedRow> Search(size_t level, WalkedRow from, size_t effort);
  // The row of the entry, judged, by its number on the top level.
  WalkedRow Entry();

  // Rows whose closeness was computed, in all walks so far.
  int64_t rows_scored() const { return rows_scored_; }

 private:
  class Lowest;
  class Upper;

  // From the entry to the lowest level.
  WalkedRow Descend();
  // Start, Follow and Take on any level.
  template <class Level>
  void StartOn(const Level& level, WalkedRow from, size_t effort);
  template <class Level>
  bool FollowOn(const Level& level);
  template <class Level>
  void TakeOn(const Level& level);
  // Puts the unvisited rows of a list into ids_, and asks for their memory.
  template <class Level>
  void TakeUnvisited(const Level& level, const uint32_t* list);
  // Computes closeness_ of rows.
  void Judge(const std::vector<uint32_t>& rows);
  // Merges fresh_, which is not empty, into pool_.
  void Merge();
  void ForgetVisits();
  // Of a row that the walk starts from.
  void Visit(uint32_t row) {
    visits_[row / 64] |= uint64_t{1} << row % 64;
    visited_.push_back(row);
  }

  const HnswRows& rows_;
  const HnswGraph& graph_;
  HnswQuery query_;
  std::vector<uint64_t> visits_;   // a bit for each row that this walk came by: few enough to stay in a near cache
  std::vector<uint32_t> visited_;  // those rows
  TableMemoryClaim memory_;        // for visits_
  std::vector<uint32_t> ids_;      // rows to judge
  std::vector<uint32_t> numbers_;  // their numbers on a level above the lowest
  std::vector<float> closeness_;
  std::vector<WalkedRow> fresh_;  // judged, and close enough for the pool
  // The candidates, closest first: [effort_], of which pool_size_ are there. Of `row` the highest bit says that its
  // links were followed.
  std::vector<WalkedRow> pool_;
  size_t pool_size_ = 0;
  size_t effort_ = 0;
  size_t next_ = 0;                  // all before it were followed
  std::vector<WalkedRow> frontier_;  // of RunAmong: a heap, the closest first
  std::vector<WalkedRow> best_;      // a heap, the farthest first
  int64_t rows_scored_ = 0;
};

// The lowest level, whose numbers are ids.
class HnswWalk::Lowest {
 public:
  explicit Lowest(const HnswGraph& graph) : graph_(graph) {}
  const uint32_t* Links(uint32_t number) const { return graph_.Links(number); }
  uint32_t Row(uint32_t number) const { return number; }
  static constexpr bool kNumbersAreRows = true;

 private:
  const HnswGraph& graph_;
};

template <typename MayKeep>
std::span<const WalkedRow> HnswWalk::RunAmong(size_t effort, const MayKeep& may_keep, StopPoll& stop) {
  const auto is_later = [](const WalkedRow& a, const WalkedRow& b) { return IsWalkedFirst(b, a); };
  frontier_.clear();
  best_.clear();
  const WalkedRow entry = Descend();
  ForgetVisits();
  Visit(entry.row);
  frontier_.push_back(entry);
  if (may_keep(entry.row)) best_.push_back(entry);
  const Lowest lowest(graph_);
  while (!frontier_.empty() && !stop.ShouldStop()) {
    const WalkedRow nearest = frontier_.front();
    if (best_.size() == effort && nearest.closeness < best_.front().closeness) break;
    std::pop_heap(frontier_.begin(), frontier_.end(), is_later);
    frontier_.pop_back();
    TakeUnvisited(lowest, graph_.Links(nearest.row));
    Judge(ids_);
    for (size_t i = 0; i < ids_.size(); ++i) {
      const WalkedRow found = {closeness_[i], ids_[i]};
      // Written so that a NaN is left out, too.
      if (!(best_.size() < effort ? found.closeness == found.closeness : IsWalkedFirst(found, best_.front()))) continue;
      frontier_.push_back(found);
      std::push_heap(frontier_.begin(), frontier_.end(), is_later);
      if (!may_keep(found.row)) continue;
      best_.push_back(found);
      std::push_heap(best_.begin(), best_.end(), IsWalkedFirst);
      if (best_.size() <= effort) continue;
      std::pop_heap(best_.begin(), best_.end(), IsWalkedFirst);
      best_.pop_back();
    }
  }
  return best_;
}

}  // namespace embedding
