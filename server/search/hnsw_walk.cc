#include "server/search/hnsw_walk.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace embedding {
namespace {

constexpr uint32_t kFollowed = uint32_t{1} << 31;  // numbers of rows are below

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
      visits_(static_cast<size_t>(graph.num_rows() + 63) / 64),
      memory_(TableMemoryClaim::Note(static_cast<int64_t>(visits_.size() * sizeof(visits_[0])))),
      closeness_(graph.lowest_stride()) {}

void HnswWalk::ForgetVisits() {
  for (const uint32_t row : visited_) visits_[row / 64] = 0;
  visited_.clear();
}

void HnswWalk::Judge(const std::vector<uint32_t>& rows) {
  rows_scored_ += static_cast<int64_t>(rows.size());
  rows_.Judge(query_, rows.data(), rows.size(), closeness_.data());
}

template <class Level>
void HnswWalk::TakeUnvisited(const Level& level, const uint32_t* list) {
  // Every row is written, and counted if it is new: no processor could foresee which ones are.
  const uint32_t count = list[0];
  ids_.resize(count);
  if (!Level::kNumbersAreRows) numbers_.resize(count);
  uint32_t* ids = ids_.data();
  uint64_t* visits = visits_.data();
  size_t fresh = 0;
  for (uint32_t j = 1; j <= count; ++j) {
    const uint32_t row = level.Row(list[j]);
    const uint64_t word = visits[row / 64];
    const uint64_t bit = uint64_t{1} << row % 64;
    visits[row / 64] = word | bit;
    ids[fresh] = row;
    if (!Level::kNumbersAreRows) numbers_[fresh] = list[j];
    fresh += (word & bit) == 0 ? 1 : 0;
  }
  ids_.resize(fresh);
  if (!Level::kNumbersAreRows) numbers_.resize(fresh);
  for (const uint32_t row : ids_) rows_.Prefetch(row);
  visited_.insert(visited_.end(), ids_.begin(), ids_.end());
}

template void HnswWalk::TakeUnvisited(const Lowest& level, const uint32_t* list);

void HnswWalk::Merge() {
  // Mostly a handful.
  for (size_t i = 1; i < fresh_.size(); ++i) {
    const WalkedRow row = fresh_[i];
    size_t at = i;
    for (; at > 0 && IsWalkedFirst(row, fresh_[at - 1]); --at) fresh_[at] = fresh_[at - 1];
    fresh_[at] = row;
  }
  // From the farthest on: what lies behind the place of a row moves by as many places as rows are still to come, what
  // passes the end is dropped. Each entry moves once.
  const size_t new_size = std::min(effort_, pool_size_ + fresh_.size());
  WalkedRow* pool = pool_.data();
  size_t end = pool_size_;
  for (size_t left = fresh_.size(); left > 0; --left) {
    const WalkedRow& row = fresh_[left - 1];
    size_t begin = 0;  // of those that are farther; equal ones stay before it
    for (size_t length = end; length > 0;) {
      const size_t half = (length + 1) / 2;
      begin += pool[begin + half - 1].closeness >= row.closeness ? half : 0;
      length -= half;
    }
    if (begin + left < new_size) {
      std::memmove(pool + begin + left, pool + begin, std::min(end - begin, new_size - begin - left) * sizeof(*pool));
    }
    if (begin + left - 1 < new_size) pool[begin + left - 1] = row;
    end = begin;
  }
  pool_size_ = new_size;
  next_ = std::min(next_, end);
}

template <class Level>
void HnswWalk::StartOn(const Level& level, WalkedRow from, size_t effort) {
  ForgetVisits();
  Visit(level.Row(from.row));
  effort_ = effort;
  if (pool_.size() < effort) pool_.resize(effort);
  pool_[0] = from;
  pool_size_ = 1;
  next_ = 0;
}

// The pool is sorted, so the next row to follow is the first one that was not; the walk is over when there is none.
template <class Level>
bool HnswWalk::FollowOn(const Level& level) {
  while (next_ < pool_size_ && (pool_[next_].row & kFollowed) != 0) ++next_;
  if (next_ == pool_size_) {
    for (size_t i = 0; i < pool_size_; ++i) pool_[i].row &= ~kFollowed;
    return false;
  }
  const uint32_t* list = level.Links(pool_[next_].row);
  pool_[next_].row |= kFollowed;
  TakeUnvisited(level, list);
  return true;
}

template <class Level>
void HnswWalk::TakeOn(const Level& level) {
  Judge(ids_);
  const float bound = pool_size_ == effort_ ? pool_[pool_size_ - 1].closeness : -std::numeric_limits<float>::infinity();
  fresh_.resize(ids_.size());
  size_t fresh = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    fresh_[fresh] = {closeness_[i], Level::kNumbersAreRows ? ids_[i] : numbers_[i]};
    fresh += closeness_[i] > bound ? 1 : 0;  // nor a NaN
  }
  fresh_.resize(fresh);
  if (!fresh_.empty()) Merge();
  // Most often the two that come next.
  const size_t stride = Level::kNumbersAreRows ? graph_.lowest_stride() : graph_.upper_stride();
  int asked = 0;
  for (size_t i = next_; i < pool_size_ && asked < 2; ++i) {
    if ((pool_[i].row & kFollowed) != 0) continue;
    PrefetchList(level.Links(pool_[i].row), stride);
    ++asked;
  }
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

void HnswWalk::Start(size_t effort) {
  const WalkedRow entry = Descend();
  StartOn(Lowest(graph_), entry, effort);
}

bool HnswWalk::Follow() { return FollowOn(Lowest(graph_)); }

void HnswWalk::Take() { TakeOn(Lowest(graph_)); }

std::span<const WalkedRow> HnswWalk::Search(size_t level, WalkedRow from, size_t effort) {
  if (level == 0) {
    StartOn(Lowest(graph_), from, effort);
    while (Follow()) Take();
    return found();
  }
  const Upper upper(graph_, level);
  StartOn(upper, from, effort);
  while (FollowOn(upper)) TakeOn(upper);
  return found();
}

}  // namespace embedding
