#include "client/loadtest/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "client/loadtest/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embedding::loadtest {
namespace {

// The definition, on sorted samples: rank ceil(q * n) of n, counted from 1. per_mille = 1000 q keeps it in integers.
int64_t ExactPercentile(const std::vector<int64_t>& sorted, int64_t per_mille) {
  const auto n = static_cast<int64_t>(sorted.size());
  const int64_t rank = std::max<int64_t>(1, (per_mille * n + 999) / 1000);
  return sorted[static_cast<size_t>(rank - 1)];
}

TEST(HistogramTest, EmptyHistogramAnswersZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.ValueAt(0.99), 0);
  EXPECT_EQ(histogram.CountBeyond(0.99), 0);
  EXPECT_EQ(histogram.max_ns(), 0);
  EXPECT_EQ(histogram.mean_ns(), 0.0);
}

TEST(HistogramTest, SmallValuesAreExact) {
  Histogram histogram;
  for (int64_t value = 0; value < 2000; ++value) histogram.Record(value);
  EXPECT_EQ(histogram.ValueAt(0.5), 999);
  EXPECT_EQ(histogram.ValueAt(0.9), 1799);
  EXPECT_EQ(histogram.ValueAt(0.99), 1979);
  EXPECT_EQ(histogram.ValueAt(0.999), 1997);
  EXPECT_EQ(histogram.ValueAt(0), 0);
  EXPECT_EQ(histogram.ValueAt(1), 1999);
}

TEST(HistogramTest, CountsWhatLiesBeyondAPercentile) {
  Histogram histogram;
  for (int i = 0; i < 1000; ++i) histogram.Record(i);
  EXPECT_EQ(histogram.CountBeyond(0.5), 500);
  EXPECT_EQ(histogram.CountBeyond(0.9), 100);
  EXPECT_EQ(histogram.CountBeyond(0.99), 10);
  EXPECT_EQ(histogram.CountBeyond(0.999), 1);
  EXPECT_EQ(histogram.CountBeyond(1), 0);
}

// Values spread over the whole range, each power of two alike.
TEST(HistogramTest, PercentilesAreWithinAThousandthOfTheExactOnes) {
  Random random(7, 0);
  Histogram histogram;
  std::vector<int64_t> samples;
  double sum = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto value = static_cast<int64_t>(std::exp2(40 * random.NextUnit()));
    samples.push_back(value);
    sum += static_cast<double>(value);
    histogram.Record(value);
  }
  std::sort(samples.begin(), samples.end());
  for (const int64_t per_mille : {1, 10, 100, 250, 500, 750, 900, 950, 990, 999}) {
    const auto exact = static_cast<double>(ExactPercentile(samples, per_mille));
    const auto got = static_cast<double>(histogram.ValueAt(static_cast<double>(per_mille) / 1000));
    EXPECT_NEAR(got, exact, exact * 0.001) << per_mille;
  }
  EXPECT_EQ(histogram.min_ns(), samples.front());
  EXPECT_EQ(histogram.max_ns(), samples.back());
  EXPECT_NEAR(histogram.mean_ns(), sum / 200'000, sum / 200'000 * 1e-9);
}

TEST(HistogramTest, EveryBucketBoundaryKeepsTheErrorBound) {
  for (int bit = 11; bit < 41; ++bit) {
    for (const int64_t offset : {-1, 0, 1}) {
      const int64_t value = (int64_t{1} << bit) + offset;
      Histogram histogram;
      histogram.Record(0);
      histogram.Record(value);
      histogram.Record(Histogram::kMaxNs);
      const auto got = static_cast<double>(histogram.ValueAt(0.5));
      EXPECT_NEAR(got, static_cast<double>(value), static_cast<double>(value) * 0.001) << value;
    }
  }
}

TEST(HistogramTest, ValuesOutOfRangeCountAtItsEnds) {
  Histogram histogram;
  histogram.Record(-5);
  histogram.Record(Histogram::kMaxNs * 4);
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_EQ(histogram.min_ns(), 0);
  EXPECT_EQ(histogram.max_ns(), Histogram::kMaxNs * 4);
  EXPECT_EQ(histogram.ValueAt(0.5), 0);
}

TEST(HistogramTest, MergingEqualsRecordingInOne) {
  Random random(3, 0);
  Histogram parts[3];
  Histogram whole;
  for (int i = 0; i < 30'000; ++i) {
    const auto value = static_cast<int64_t>(random.NextBelow(1'000'000'000));
    parts[i % 3].Record(value);
    whole.Record(value);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  merged.Merge(Histogram());
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_EQ(merged.min_ns(), whole.min_ns());
  EXPECT_EQ(merged.max_ns(), whole.max_ns());
  for (const double quantile : {0.0, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    EXPECT_EQ(merged.ValueAt(quantile), whole.ValueAt(quantile)) << quantile;
  }
}

}  // namespace
}  // namespace embedding::loadtest
