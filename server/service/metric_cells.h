// The counters behind metrics.h: plain relaxed atomics, one copy per shard. A thread adds to its own shard, a reader
// sums over all of them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace embedding {

// A count or a sum of whole units (calls, bytes, nanoseconds): integers, so that sums are exact and adding needs no
// loop.
class Cell {
 public:
  void Add(int64_t amount, std::memory_order order = std::memory_order_relaxed) { value_.fetch_add(amount, order); }
  int64_t Get(std::memory_order order = std::memory_order_relaxed) const { return value_.load(order); }

 private:
  std::atomic<int64_t> value_{0};
};

// A histogram as summed over the shards. counts[i]: values in (bounds[i-1], bounds[i]]; the last: above all bounds.
template <size_t kNumBounds>
struct HistogramSnapshot {
  std::array<int64_t, kNumBounds + 1> counts{};
  int64_t sum = 0;
};

template <const auto& kBounds>
class HistogramCells {
 public:
  static constexpr size_t kNumBounds = kBounds.size();

  // value: >= 0.
  void Observe(int64_t value) {
    // Bounds are inclusive, as Prometheus' "le" is.
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), value) - kBounds.begin();
    counts_[static_cast<size_t>(bucket)].Add(1);
    sum_.Add(value);
  }
  void AddTo(HistogramSnapshot<kNumBounds>& snapshot) const {
    for (size_t i = 0; i < counts_.size(); ++i) snapshot.counts[i] += counts_[i].Get();
    snapshot.sum += sum_.Get();
  }

 private:
  std::array<Cell, kNumBounds + 1> counts_;
  Cell sum_;
};

// A number that stays the same for a thread's life and differs between threads as long as possible.
inline size_t ThreadShardIndex() {
  static std::atomic<size_t> next{0};
  thread_local const size_t index = next.fetch_add(1, std::memory_order_relaxed);
  return index;
}

}  // namespace embedding
