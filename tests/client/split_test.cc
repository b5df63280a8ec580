#include "client/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace embedding::client {
namespace {

using testing::ElementsAre;
using testing::Pair;

ServerLimits Limits(int64_t max_ids = 1'000'000, int64_t max_queries = 1'000'000, int64_t max_pairs = 1'000'000'000) {
  return {.max_ids = max_ids,
          .max_queries = max_queries,
          .max_k = 100,
          .max_pairs = max_pairs,
          .max_request_bytes = int64_t{1} << 30,
          .max_response_bytes = int64_t{1} << 30,
          .max_deadline = std::chrono::milliseconds(1000)};
}

Ids CountingIds(size_t count) {
  Ids ids;
  ids.values.resize(count);
  std::iota(ids.values.begin(), ids.values.end(), 0);
  return ids;
}

Vectors VectorsOf(size_t count, int64_t dim) {
  return {.values = std::vector<float>(count * static_cast<size_t>(dim)), .dim = dim};
}

TEST(SplitTest, OneRangeUpToTheLimitAndTwoAboveIt) {
  EXPECT_THAT(SplitLookup(CountingIds(100), 4, Limits(100)), ElementsAre(Range{0, 100}));
  EXPECT_THAT(SplitLookup(CountingIds(101), 4, Limits(100)), ElementsAre(Range{0, 100}, Range{100, 101}));
}

TEST(SplitTest, EmptyBatchIsOneEmptyRange) {
  EXPECT_THAT(SplitLookup(CountingIds(0), 4, Limits()), ElementsAre(Range{0, 0}));
  EXPECT_THAT(SplitQueries(Vectors{}, 4, 0, Limits()), ElementsAre(Range{0, 0}));
  EXPECT_THAT(SplitAllPairs(CountingIds(0), CountingIds(3), Limits()), ElementsAre(Pair(Range{0, 0}, Range{0, 3})));
}

TEST(SplitTest, LookupKeepsTheAnswerUnderItsBytes) {
  ServerLimits limits = Limits();
  limits.max_response_bytes = 256 + 3 * 400;  // the envelope and three rows
  EXPECT_THAT(SplitLookup(CountingIds(7), 400, limits), ElementsAre(Range{0, 3}, Range{3, 6}, Range{6, 7}));
}

TEST(SplitTest, ExamplesAreBoundByQueriesByTheirVectorsAndByBytes) {
  ExampleQuery three{
      .positive = {CountingIds(2)}, .negative = {VectorsOf(1, 4)}, .positive_weights = {}, .negative_weights = {}};
  EXPECT_EQ(CountOf(three), 3u);
  const std::vector<ExampleQuery> examples(5, three);
  EXPECT_THAT(SplitExamples(examples, 4, 0, Limits()), ElementsAre(Range{0, 5}));
  EXPECT_THAT(SplitExamples(examples, 4, 0, Limits(/*max_ids=*/1000, /*max_queries=*/2)),
              ElementsAre(Range{0, 2}, Range{2, 4}, Range{4, 5}));
  EXPECT_THAT(SplitExamples(examples, 4, 0, Limits(/*max_ids=*/9)), ElementsAre(Range{0, 3}, Range{3, 5}));
  EXPECT_THAT(SplitExamples(examples, 4, 0, Limits(/*max_ids=*/8)), ElementsAre(Range{0, 2}, Range{2, 4}, Range{4, 5}));
  ServerLimits limits = Limits();
  limits.max_request_bytes = 256 + 2 * 166;  // 48 for each set and query, 2 for the ids, 16 for the vector, and some
  EXPECT_THAT(SplitExamples(examples, 4, 0, limits), ElementsAre(Range{0, 2}, Range{2, 4}, Range{4, 5}));
  EXPECT_THAT(SplitExamples(examples, 4, 166, limits).size(), 5u);  // a filter takes the room of one
  limits = Limits();
  limits.max_response_bytes = 256 + 300;
  EXPECT_THAT(SplitExamples(examples, 100, 0, limits), ElementsAre(Range{0, 3}, Range{3, 5}));
  EXPECT_THAT(SplitExamples({}, 4, 0, Limits()), ElementsAre(Range{0, 0}));
}

TEST(SplitTest, FiltersTakeTheBytesOfTheirIds) {
  EXPECT_EQ(RequestBytesOf(Filter{}), 0);
  EXPECT_EQ(RequestBytesOf(Filter{.allow = std::vector<int64_t>{1, 127, 128}, .deny = {16384}}), 7);
}

TEST(SplitTest, ARowOverTheLimitGoesAlone) {
  ServerLimits limits = Limits();
  limits.max_response_bytes = 100;
  EXPECT_THAT(SplitLookup(CountingIds(2), 400, limits), ElementsAre(Range{0, 1}, Range{1, 2}));
}

TEST(SplitTest, IdsCountAsTheirVarints) {
  ServerLimits limits = Limits();
  limits.max_request_bytes = 256 + 10;
  // One byte below 128, two from there on, five from 2^28, ten for a negative id.
  EXPECT_THAT(SplitLookup(Ids{{127, 127, 128, 16383, 1 << 28, -1, 3}, {}}, 4, limits),
              ElementsAre(Range{0, 4}, Range{4, 5}, Range{5, 6}, Range{6, 7}));
}

TEST(SplitTest, KeysCountAsTheirBytes) {
  ServerLimits limits = Limits();
  limits.max_request_bytes = 256 + 20;
  EXPECT_THAT(SplitLookup(Keys{{"123456", "123456", "1234567890123456", "", ""}, {}}, 4, limits),
              ElementsAre(Range{0, 2}, Range{2, 3}, Range{3, 5}));
}

TEST(SplitTest, QueriesByVectorsAreNoIds) {
  EXPECT_THAT(SplitQueries(VectorsOf(5, 2), 100, 0, Limits(/*max_ids=*/2, /*max_queries=*/4)),
              ElementsAre(Range{0, 4}, Range{4, 5}));
  EXPECT_THAT(SplitQueries(CountingIds(5), 100, 0, Limits(/*max_ids=*/2, /*max_queries=*/4)),
              ElementsAre(Range{0, 2}, Range{2, 4}, Range{4, 5}));
}

TEST(SplitTest, PairwiseRangesAreTheSameOnBothSides) {
  EXPECT_THAT(SplitPairwise(CountingIds(5), VectorsOf(5, 3), Limits(1000, 1000, /*max_pairs=*/3)),
              ElementsAre(Pair(Range{0, 3}, Range{0, 3}), Pair(Range{3, 5}, Range{3, 5})));
}

TEST(SplitTest, AllPairsTilesHoldAtMostMaxPairs) {
  EXPECT_THAT(
      SplitAllPairs(CountingIds(3), CountingIds(5), Limits(1000, 1000, /*max_pairs=*/4)),
      ElementsAre(Pair(Range{0, 1}, Range{0, 4}), Pair(Range{0, 1}, Range{4, 5}), Pair(Range{1, 2}, Range{0, 4}),
                  Pair(Range{1, 2}, Range{4, 5}), Pair(Range{2, 3}, Range{0, 4}), Pair(Range{2, 3}, Range{4, 5})));
}

// Every split of a grid of sizes and limits: covers each element once, in order, within the limits.
TEST(SplitTest, AllPairsCoverEveryPairOnceWithinEveryLimit) {
  for (const size_t n : {1, 2, 7, 40}) {
    for (const size_t m : {1, 3, 33}) {
      for (const int64_t max_pairs : {1, 5, 64, 10'000}) {
        for (const int64_t request_bytes : {300, 400, 100'000}) {
          ServerLimits limits = Limits(/*max_ids=*/16, 1000, max_pairs);
          limits.max_request_bytes = request_bytes;
          std::vector<int> seen(n * m, 0);
          for (const auto& [left, right] : SplitAllPairs(CountingIds(n), VectorsOf(m, 3), limits)) {
            EXPECT_LE(static_cast<int64_t>(left.size() * right.size()), max_pairs);
            EXPECT_LE(left.size(), 16u);
            if (left.size() > 1 || right.size() > 1) {
              EXPECT_LE(static_cast<int64_t>(256 + left.size() + right.size() * 12), request_bytes);
            }
            for (size_t i = left.begin; i < left.end; ++i) {
              for (size_t j = right.begin; j < right.end; ++j) ++seen[i * m + j];
            }
          }
          EXPECT_THAT(seen, testing::Each(1)) << n << " x " << m << ", pairs " << max_pairs;
        }
      }
    }
  }
}

TEST(SplitTest, ResolveSplitsByIdsAndAPrefixNever) {
  EXPECT_THAT(SplitResolve(Ids{{1, 2, 3}, {}}, Limits(2)), ElementsAre(Range{0, 2}, Range{2, 3}));
  EXPECT_THAT(SplitResolve(KeyPrefix{"ro", 5}, Limits(2)), ElementsAre(Range{0, 0}));
}

}  // namespace
}  // namespace embedding::client
