// How a table is split into blocks of rows, and how the work on them stops early.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "server/search/similarity.h"

namespace embedding {

// Multiply-adds below which handing work to another thread costs more than it saves: some tens of microseconds.
constexpr int64_t kLaneWork = int64_t{1} << 18;
// Multiply-adds that may run on the calling thread, which is often one that polls for requests: some 10 microseconds.
constexpr int64_t kInlineWork = int64_t{1} << 14;

// The lanes that a job of so many multiply-adds is worth, at most num_threads.
inline int LanesFor(int64_t work, int num_threads) {
  return static_cast<int>(std::clamp<int64_t>(work / kLaneWork, 1, num_threads));
}

// Asks the caller's predicate until it says true once, from any thread.
class StopPoll {
 public:
  explicit StopPoll(StopPredicate stop) : stop_(std::move(stop)) {}
  bool ShouldStop() {
    if (stopped_.load(std::memory_order_relaxed)) return true;
    if (!stop_ || !stop_()) return false;
    stopped_.store(true, std::memory_order_relaxed);
    return true;
  }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  StopPredicate stop_;
  std::atomic<bool> stopped_{false};
};

// Hands out [begin, end) in blocks, each once, to any number of threads.
class BlockCounter {
 public:
  BlockCounter(int64_t size, int64_t block_size) : BlockCounter(0, size, block_size) {}
  BlockCounter(int64_t begin, int64_t end, int64_t block_size) : end_(end), block_size_(block_size), next_(begin) {}
  // False when nothing is left.
  bool Take(int64_t* begin, int64_t* end) {
    *begin = next_.fetch_add(block_size_, std::memory_order_relaxed);
    if (*begin >= end_) return false;
    *end = std::min(end_, *begin + block_size_);
    return true;
  }
  int64_t block_size() const { return block_size_; }

 private:
  const int64_t end_;
  const int64_t block_size_;
  std::atomic<int64_t> next_;
};

}  // namespace embedding
