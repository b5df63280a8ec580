// Counts of durations in log-linear buckets: percentiles to 0.1 %, whatever the range.
#pragma once

#include <cstdint>
#include <vector>

namespace embedding::loadtest {

// Durations in nanoseconds. A value below 2,048 ns has a bucket of its own; above, each power of two is split into
// 1,024 buckets, so that a bucket is at most 1/1,024 of its values wide and its middle is within 0.05 % of each. Values
// over kMaxNs (36 minutes) count in the last bucket. Minimum, maximum and mean are exact. Memory: 256 KiB, taken by the
// constructor. Not thread-safe: one per thread, merged afterwards. Layout after HdrHistogram (hdrhistogram.org) with
// 2,048 sub-buckets.
class Histogram {
 public:
  static constexpr int64_t kMaxNs = (int64_t{1} << 41) - 1;

  Histogram();

  // Counts one value; below 0 counts as 0. Does not allocate.
  void Record(int64_t value_ns);
  // Adds every count of `other`.
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  // 0 when nothing was recorded.
  int64_t min_ns() const { return count_ == 0 ? 0 : min_; }
  int64_t max_ns() const { return max_; }
  double mean_ns() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }

  // The value that a share of `quantile` (in [0, 1]) of the samples does not exceed: the sample of rank
  // ceil(quantile * count), at least 1. 0 when nothing was recorded.
  int64_t ValueAt(double quantile) const;
  // Samples of a higher rank than that one: how much evidence lies beyond the percentile.
  int64_t CountBeyond(double quantile) const;

 private:
  int64_t RankOf(double quantile) const;

  std::vector<uint64_t> counts_;
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0.0;
};

}  // namespace embedding::loadtest
