#include "server/search/similarity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <future>
#include <random>
#include <vector>

#include "tests/server/search/search_testing.h"
#include "tests/testing/random_vectors.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using ::testing::ElementsAre;
using testing::ReferenceScore;

constexpr Metric kMetrics[] = {Metric::kCosine, Metric::kDot, Metric::kEuclidean};

template <typename StartFn>
WorkOutcome RunToEnd(StartFn start, Metric metric, const std::vector<VectorView>& left,
                     const std::vector<VectorView>& right, int64_t dim, std::vector<float>& scores, WorkerPool& pool,
                     StopPredicate stop = {}) {
  auto promise = std::make_shared<std::promise<WorkOutcome>>();
  std::future<WorkOutcome> outcome = promise->get_future();
  start(metric, left, right, dim, scores, pool, std::move(stop),
        [promise](WorkOutcome ended) { promise->set_value(ended); });
  return outcome.get();
}

// Vectors of every element type in turn, at odd addresses.
struct Vectors {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<VectorView> views;
};

Vectors MixedVectors(int64_t count, int64_t dim, uint64_t seed) {
  std::mt19937_64 random(seed);
  Vectors vectors;
  for (int64_t i = 0; i < count; ++i) {
    const auto kind = i % 7 == 3 ? testing::VectorKind::kManyZeroRows : testing::VectorKind::kGaussian;
    const std::vector<float> values = testing::RandomRows(kind, 1, dim, random);
    const Dtype dtypes[] = {Dtype::kF32, Dtype::kF32, Dtype::kF16, Dtype::kBF16};
    std::vector<uint8_t> bytes(1);
    ElementType type = ElementType::kF64;
    if (i % 5 == 4) {
      for (float x : values) {
        const double wide = double{x} / 7;
        const auto* raw = reinterpret_cast<const uint8_t*>(&wide);
        bytes.insert(bytes.end(), raw, raw + sizeof(wide));
      }
    } else {
      const std::vector<uint8_t> stored = testing::Stored(dtypes[i % 4], values);
      bytes.insert(bytes.end(), stored.begin(), stored.end());
      type = ElementTypeOf(dtypes[i % 4]);
    }
    vectors.bytes.push_back(std::move(bytes));
    vectors.views.push_back({vectors.bytes.back().data() + 1, type});
  }
  return vectors;
}

TEST(SimilarityTest, ToysByHand) {
  WorkerPool pool(1);
  const std::vector<float> robot = {1, 0, 1};
  const std::vector<float> arm = {.9f, .1f, .8f};
  const std::vector<float> box = {0, 1, 0};
  const std::vector<VectorView> left = {{robot.data(), ElementType::kF32}};
  const std::vector<VectorView> right = {{arm.data(), ElementType::kF32}, {box.data(), ElementType::kF32}};
  std::vector<float> scores(2);
  EXPECT_EQ(RunToEnd(StartAllPairs, Metric::kDot, left, right, 3, scores, pool), WorkOutcome::kComplete);
  EXPECT_THAT(scores, ElementsAre(1.7f, 0.0f));
  EXPECT_EQ(RunToEnd(StartPairwise, Metric::kEuclidean, right, right, 3, scores, pool), WorkOutcome::kComplete);
  EXPECT_THAT(scores, ElementsAre(0.0f, 0.0f));
}

struct Shape {
  int64_t left;
  int64_t right;
  int64_t dim;
};

class SimilarityShapeTest : public ::testing::TestWithParam<Shape> {};

TEST_P(SimilarityShapeTest, EqualsReferenceToTheBit) {
  const auto [num_left, num_right, dim] = GetParam();
  const Vectors left = MixedVectors(num_left, dim, 1);
  const Vectors right = MixedVectors(num_right, dim, 2);
  WorkerPool one(1);
  WorkerPool two(2);
  for (Metric metric : kMetrics) {
    std::vector<float> want;
    for (const VectorView& a : left.views) {
      for (const VectorView& b : right.views) want.push_back(ReferenceScore(metric, a, b, dim));
    }
    std::vector<float> want_pairs;
    const auto pairs = static_cast<size_t>(std::min(num_left, num_right));
    for (size_t i = 0; i < pairs; ++i) want_pairs.push_back(want[i * static_cast<size_t>(num_right) + i]);
    const std::vector<VectorView> first_left(left.views.begin(), left.views.begin() + static_cast<ptrdiff_t>(pairs));
    const std::vector<VectorView> first_right(right.views.begin(), right.views.begin() + static_cast<ptrdiff_t>(pairs));
    for (int64_t target : testing::SimdTargets()) {
      const testing::ScopedSimdTarget scoped(target);
      for (WorkerPool* pool : {&one, &two}) {
        std::vector<float> got(want.size());
        ASSERT_EQ(RunToEnd(StartAllPairs, metric, left.views, right.views, dim, got, *pool), WorkOutcome::kComplete);
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i])) << i;
        }
        std::vector<float> got_pairs(pairs);
        ASSERT_EQ(RunToEnd(StartPairwise, metric, first_left, first_right, dim, got_pairs, *pool),
                  WorkOutcome::kComplete);
        for (size_t i = 0; i < pairs; ++i) {
          ASSERT_EQ(std::bit_cast<uint32_t>(got_pairs[i]), std::bit_cast<uint32_t>(want_pairs[i])) << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SimilarityShapeTest,
                         ::testing::Values(Shape{0, 0, 3}, Shape{0, 5, 3}, Shape{5, 0, 3}, Shape{1, 1, 1},
                                           Shape{1, 300, 17}, Shape{300, 1, 9}, Shape{33, 65, 31}, Shape{70, 70, 8},
                                           Shape{40, 33, 129}, Shape{5, 6, 5000}, Shape{257, 3, 1}),
                         [](const auto& test) {
                           return "Left" + std::to_string(test.param.left) + "Right" +
                                  std::to_string(test.param.right) + "Dim" + std::to_string(test.param.dim);
                         });

TEST(SimilarityTest, StopsBetweenBlocks) {
  WorkerPool pool(2);
  const Vectors many = MixedVectors(2000, 64, 3);
  std::vector<float> scores(size_t{2000} * 2000, -7.0f);
  std::atomic<int> polls{0};
  EXPECT_EQ(RunToEnd(StartAllPairs, Metric::kDot, many.views, many.views, 64, scores, pool,
                     [&polls] { return polls.fetch_add(1) >= 4; }),
            WorkOutcome::kStopped);
  // At most 4 tiles of some 2^19 multiply-adds were worked on.
  EXPECT_LE(std::count_if(scores.begin(), scores.end(), [](float x) { return x != -7.0f; }), 4 * (1 << 19) / 64);
  polls = 0;
  std::vector<float> pairs(2000);
  EXPECT_EQ(RunToEnd(StartPairwise, Metric::kCosine, many.views, many.views, 64, pairs, pool, [] { return true; }),
            WorkOutcome::kStopped);
}

TEST(SimilarityTest, LittleWorkEndsBeforeTheCallReturns) {
  WorkerPool pool(1);
  const std::vector<float> vector = {1, 2, 3};
  const std::vector<VectorView> views(4, VectorView{vector.data(), ElementType::kF32});
  std::vector<float> scores(16);
  bool is_done = false;
  StartAllPairs(Metric::kCosine, views, views, 3, scores, pool, {}, [&is_done](WorkOutcome) { is_done = true; });
  EXPECT_TRUE(is_done);
  EXPECT_THAT(scores, ::testing::Each(1.0f));
}

}  // namespace
}  // namespace embedding
