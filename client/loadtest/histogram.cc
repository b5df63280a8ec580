#include "client/loadtest/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace embedding::loadtest {
namespace {

constexpr int kSubBucketBits = 11;
constexpr size_t kSubBuckets = size_t{1} << kSubBucketBits;
constexpr size_t kHalf = kSubBuckets / 2;
constexpr int kValueBits = 41;
constexpr size_t kBuckets = kSubBuckets + (kValueBits - kSubBucketBits) * kHalf;

size_t BucketOf(uint64_t value) {
  if (value < kSubBuckets) return value;
  const int shift = std::bit_width(value) - kSubBucketBits;
  return static_cast<size_t>(shift) * kHalf + (value >> shift);
}

int64_t MiddleOf(size_t bucket) {
  if (bucket < kSubBuckets) return static_cast<int64_t>(bucket);
  const size_t shift = bucket / kHalf - 1;
  const uint64_t low = (bucket - shift * kHalf) << shift;
  return static_cast<int64_t>(low + (uint64_t{1} << shift) / 2);
}

}  // namespace

Histogram::Histogram() : counts_(kBuckets) {}

void Histogram::Record(int64_t value_ns) {
  const int64_t value = std::max<int64_t>(value_ns, 0);
  ++counts_[BucketOf(static_cast<uint64_t>(std::min(value, kMaxNs)))];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

int64_t Histogram::RankOf(double quantile) const {
  // 0.999 * 1000 is a hair above 999 in double: the small step back keeps the rank that is meant.
  const double rank = std::ceil(quantile * static_cast<double>(count_) * (1 - 1e-12));
  return std::clamp<int64_t>(static_cast<int64_t>(rank), 1, std::max<int64_t>(count_, 1));
}

int64_t Histogram::ValueAt(double quantile) const {
  if (count_ == 0) return 0;
  int64_t left = RankOf(quantile);
  if (left == count_) return max_;
  for (size_t i = 0; i < kBuckets; ++i) {
    left -= static_cast<int64_t>(counts_[i]);
    if (left <= 0) return std::clamp(MiddleOf(i), min_, max_);
  }
  return max_;
}

int64_t Histogram::CountBeyond(double quantile) const { return count_ == 0 ? 0 : count_ - RankOf(quantile); }

}  // namespace embedding::loadtest
