#include "server/search/hnsw_walk.h"

#include <algorithm>
#include <limits>

namespace embedding {
namespace {

constexpr uint32_t kFollowed = uint32_t{1} << 31;  // numbers of rows are below
// Steps between two looks at the stop predicate: some microseconds.
constexpr size_t kStepsPerPoll = 4;

// Asks for the memory of a list of links.
void PrefetchList(const uint32_t* list, size_t stride) {
  for (size_t at = 0; at < stride; at += 16) __builtin_prefetch(list + at);
  __builtin_prefetch(list + stride - 1);
}

}  // namespace

// A level above the lowest.
class HnswWalk::Upper {
 public:
  Upper(const HnswGraph& graph, size_t level) : graph_(graph), level_(level), rows_(graph.upper()[level - 1].rows) {}
  const uint32_t* Links(uint32_t number) const { return graph_.UpperLinks(level_, number); }
  uint32_t Row(uint32_t number) const { return rows_[number]; }
  static constexpr bool kNumbersAreRows = false;

 private:
  const HnswGraph& graph_;
  const size_t level_;
  const std::vector<uint32_t>& rows_;
};

HnswWalk::HnswWalk(const HnswRows& rows, const HnswGraph& graph)
    : rows_(rows),
      graph_(graph),
      query_(rows),
      visits_(static_cast<size_t>(graph.num_rows())),
      memory_(TableMemoryClaim::Note(static_cast<int64_t>(visits_.size() * sizeof(visits_[0])))),
      closeness_(graph.lowest_stride()) {}

void HnswWalk::ForgetVisits() {
  if (++epoch_ != 0) return;
  std::fill(visits_.begin(), visits_.end(), uint16_t{0});
  epoch_ = 1;
}

void HnswWalk::Judge(const std::vector<uint32_t>& rows) {
  rows_scored_ += static_cast<int64_t>(rows.size());
  rows_.Judge(query_, rows.data(), rows.size(), closeness_.data());
}

template <class Level>
void HnswWalk::TakeUnvisited(const Level& level, const uint32_t* list) {
  ids_.clear();
  numbers_.clear();
  for (uint32_t j = 1; j <= list[0]; ++j) __builtin_prefetch(&visits_[level.Row(list[j])], 1);
  for (uint32_t j = 1; j <= list[0]; ++j) {
    const uint32_t row = level.Row(list[j]);
    if (!Visit(row)) continue;
    rows_.Prefetch(row);
    ids_.push_back(row);
    if (!Level::kNumbersAreRows) numbers_.push_back(list[j]);
  }
}

template void HnswWalk::TakeUnvisited(const Lowest& level, const uint32_t* list);

size_t HnswWalk::Merge(size_t effort) {
  std::sort(fresh_.begin(), fresh_.end(), IsWalkedFirst);
  const size_t old_size = pool_.size();
  const size_t first = static_cast<size_t>(
      std::upper_bound(pool_.begin(), pool_.end(), fresh_.front(),
                       [](const WalkedRow& a, const WalkedRow& b) { return a.closeness > b.closeness; }) -
      pool_.begin());
  // From the back, so that each entry moves once.
  pool_.resize(old_size + fresh_.size());
  size_t from = old_size;
  size_t to = pool_.size();
  for (size_t left = fresh_.size(); left > 0;) {
    if (from > first && pool_[from - 1].closeness < fresh_[left - 1].closeness) {
      pool_[--to] = pool_[--from];
    } else {
      pool_[--to] = fresh_[--left];
    }
  }
  if (pool_.size() > effort) pool_.resize(effort);
  return first;
}

// The pool is sorted, so the next row to follow is the first one that was not; the walk is over when there is none.
template <class Level>
std::span<const WalkedRow> HnswWalk::SearchLevel(const Level& level, WalkedRow from, size_t effort, StopPoll* stop) {
  const size_t stride = Level::kNumbersAreRows ? graph_.lowest_stride() : graph_.upper_stride();
  ForgetVisits();
  Visit(level.Row(from.row));
  pool_.assign(1, from);
  size_t next = 0;
  for (size_t step = 0; next < pool_.size(); ++step) {
    if (stop != nullptr && step % kStepsPerPoll == 0 && stop->ShouldStop()) break;
    const uint32_t* list = level.Links(pool_[next].row);
    pool_[next].row |= kFollowed;
    TakeUnvisited(level, list);
    Judge(ids_);
    fresh_.clear();
    const float bound = pool_.size() == effort ? pool_.back().closeness : -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < ids_.size(); ++i) {
      // Nor a NaN.
      if (closeness_[i] > bound) fresh_.push_back({closeness_[i], Level::kNumbersAreRows ? ids_[i] : numbers_[i]});
    }
    if (!fresh_.empty()) next = std::min(next, Merge(effort));
    while (next < pool_.size() && (pool_[next].row & kFollowed) != 0) ++next;
    if (next >= pool_.size()) break;
    // Most often these two come next.
    PrefetchList(level.Links(pool_[next].row), stride);
    for (size_t later = next + 1; later < pool_.size(); ++later) {
      if ((pool_[later].row & kFollowed) != 0) continue;
      PrefetchList(level.Links(pool_[later].row), stride);
      break;
    }
  }
  for (WalkedRow& walked : pool_) walked.row &= ~kFollowed;
  return pool_;
}

WalkedRow HnswWalk::Entry() {
  const auto number = static_cast<uint32_t>(graph_.entry());
  const auto& upper = graph_.upper();
  ids_.assign(1, upper.empty() ? number : upper.back().rows[number]);
  Judge(ids_);
  return {closeness_[0], number};
}

WalkedRow HnswWalk::Climb(size_t level, WalkedRow at) {
  const Upper here(graph_, level);
  for (bool moved = true; moved;) {
    moved = false;
    const uint32_t* list = here.Links(at.row);
    ids_.clear();
    for (uint32_t j = 1; j <= list[0]; ++j) {
      ids_.push_back(here.Row(list[j]));
      rows_.Prefetch(ids_.back());
    }
    Judge(ids_);
    for (uint32_t j = 1; j <= list[0]; ++j) {
      if (!(closeness_[j - 1] > at.closeness)) continue;  // nor a NaN, which would move for ever
      at = {closeness_[j - 1], list[j]};
      moved = true;
    }
  }
  return at;
}

WalkedRow HnswWalk::Descend() {
  WalkedRow at = Entry();
  for (size_t level = graph_.upper().size(); level >= 1; --level) {
    at = Climb(level, at);
    at.row = graph_.upper()[level - 1].below[at.row];
  }
  return at;
}

std::span<const WalkedRow> HnswWalk::Run(size_t effort, StopPoll& stop) {
  const WalkedRow entry = Descend();
  return SearchLevel(Lowest(graph_), entry, effort, &stop);
}

std::span<const WalkedRow> HnswWalk::Search(size_t level, WalkedRow from, size_t effort) {
  if (level == 0) return SearchLevel(Lowest(graph_), from, effort, nullptr);
  return SearchLevel(Upper(graph_, level), from, effort, nullptr);
}

}  // namespace embedding
