#include "server/search/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <random>
#include <vector>

#include "server/search/metric.h"
#include "tests/server/search/search_testing.h"
#include "tests/testing/random_vectors.h"
#include "tests/testing/reference.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::ReferenceScore;
using testing::ScopedSimdTarget;
using testing::SimdTargets;
using testing::Stored;

constexpr Metric kMetrics[] = {Metric::kCosine, Metric::kDot, Metric::kEuclidean};
constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kF16,    Dtype::kBF16,  Dtype::kI8,
                             Dtype::kU8,  Dtype::kF8E4M3, Dtype::kF8E5M2};

VectorView F32(const std::vector<float>& vector) { return {vector.data(), ElementType::kF32}; }

TEST(MetricTest, FollowsTheTablesWordAndKnowsItsDirection) {
  EXPECT_EQ(MetricOf(TableMetric::kCosine), Metric::kCosine);
  EXPECT_EQ(MetricOf(TableMetric::kDot), Metric::kDot);
  EXPECT_EQ(MetricOf(TableMetric::kEuclidean), Metric::kEuclidean);
  EXPECT_TRUE(HigherIsCloser(Metric::kCosine));
  EXPECT_TRUE(HigherIsCloser(Metric::kDot));
  EXPECT_FALSE(HigherIsCloser(Metric::kEuclidean));
}

TEST(ScoreTest, ValuesComputedByHand) {
  const std::vector<float> a = {3, 4};
  const std::vector<float> b = {4, 3};
  EXPECT_EQ(CanonicalScore(Metric::kDot, F32(a), F32(b), 2), 24.0f);
  EXPECT_EQ(CanonicalScore(Metric::kCosine, F32(a), F32(b), 2), 0.96f);
  EXPECT_EQ(CanonicalScore(Metric::kEuclidean, F32(a), F32(b), 2), std::sqrt(2.0f));
  const std::vector<float> robot = {1, 0, 1};
  const std::vector<float> tool = {-1, 0, 0.5f};
  EXPECT_EQ(CanonicalScore(Metric::kDot, F32(robot), F32(tool), 3), -0.5f);
  EXPECT_FLOAT_EQ(CanonicalScore(Metric::kCosine, F32(robot), F32(tool), 3), -0.5f / std::sqrt(2.0f * 1.25f));
}

struct Golden {
  int64_t dim;
  int64_t a;
  int64_t b;
  double dot;
  double cosine;
  double euclidean;
};

constexpr Golden kGolden[] = {
#include "tests/server/search/golden/scores.inc"
};

// As golden/make_scores.py says.
std::vector<float> GoldenVector(int64_t i, int64_t dim) {
  std::vector<float> vector;
  for (int64_t j = 0; j < dim; ++j) {
    vector.push_back(static_cast<float>((i * 7919 + j * 104729) % 2001 - 1000) / 1024);
  }
  return vector;
}

void ExpectWithinOneUlp(float got, double want, const char* what) {
  const auto nearest = static_cast<float>(want);
  EXPECT_GE(got, std::nextafter(nearest, -FLT_MAX)) << what;
  EXPECT_LE(got, std::nextafter(nearest, FLT_MAX)) << what;
}

TEST(ScoreTest, WithinOneUnitOfNumpyOnEveryTarget) {
  for (int64_t target : SimdTargets()) {
    const ScopedSimdTarget scoped(target);
    for (const Golden& golden : kGolden) {
      for (Dtype dtype : {Dtype::kF32, Dtype::kF16}) {
        const std::vector<uint8_t> a = Stored(dtype, GoldenVector(golden.a, golden.dim));
        const std::vector<uint8_t> b = Stored(dtype, GoldenVector(golden.b, golden.dim));
        const VectorView va = {a.data(), ElementTypeOf(dtype)};
        const VectorView vb = {b.data(), ElementTypeOf(dtype)};
        ExpectWithinOneUlp(CanonicalScore(Metric::kDot, va, vb, golden.dim), golden.dot, "dot");
        ExpectWithinOneUlp(CanonicalScore(Metric::kCosine, va, vb, golden.dim), golden.cosine, "cosine");
        ExpectWithinOneUlp(CanonicalScore(Metric::kEuclidean, va, vb, golden.dim), golden.euclidean, "euclidean");
      }
    }
  }
}

TEST(ScoreTest, ZeroVectorHasCosineZero) {
  const std::vector<float> zero(9, 0.0f);
  const std::vector<float> one(9, 1.0f);
  EXPECT_EQ(CanonicalScore(Metric::kCosine, F32(zero), F32(one), 9), 0.0f);
  EXPECT_EQ(CanonicalScore(Metric::kCosine, F32(one), F32(zero), 9), 0.0f);
  EXPECT_EQ(CanonicalScore(Metric::kCosine, F32(zero), F32(zero), 9), 0.0f);
  EXPECT_EQ(CanonicalScore(Metric::kEuclidean, F32(zero), F32(one), 9), 3.0f);
  // Doubles whose squares underflow count as zero, too.
  const std::vector<double> tiny(9, 1e-200);
  EXPECT_EQ(CanonicalScore(Metric::kCosine, {tiny.data(), ElementType::kF64}, F32(one), 9), 0.0f);
}

TEST(ScoreTest, CosineStaysWithinOne) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> a(3);
    for (float& x : a) x = normal(random);
    std::vector<double> scaled;
    scaled.reserve(a.size());
    for (float x : a) scaled.push_back(-3.0 * double{x});
    EXPECT_LE(CanonicalScore(Metric::kCosine, F32(a), F32(a), 3), 1.0f);
    EXPECT_GE(CanonicalScore(Metric::kCosine, F32(a), {scaled.data(), ElementType::kF64}, 3), -1.0f);
  }
}

TEST(ScoreTest, BeyondFloatIsTheLargestFloat) {
  const std::vector<float> huge(4, 1e30f);
  const std::vector<float> minus(4, -1e30f);
  EXPECT_EQ(CanonicalScore(Metric::kDot, F32(huge), F32(huge), 4), FLT_MAX);
  EXPECT_EQ(CanonicalScore(Metric::kDot, F32(huge), F32(minus), 4), -FLT_MAX);
  EXPECT_EQ(CanonicalScore(Metric::kCosine, F32(huge), F32(minus), 4), -1.0f);
  const std::vector<float> largest(4, FLT_MAX);
  const std::vector<float> smallest(4, -FLT_MAX);
  EXPECT_EQ(CanonicalScore(Metric::kEuclidean, F32(largest), F32(smallest), 4), FLT_MAX);
}

TEST(ScoreTest, SubnormalElementsCount) {
  const std::vector<float> tiny(16, 1e-40f);
  const std::vector<float> big(16, 1e30f);
  EXPECT_EQ(CanonicalScore(Metric::kCosine, F32(tiny), F32(big), 16), 1.0f);
  EXPECT_EQ(CanonicalScore(Metric::kDot, F32(tiny), F32(big), 16),
            static_cast<float>(16.0 * double{1e-40f} * double{1e30f}));
}

// Every pair of operand types, every target, misaligned: the bits of the reference.
class ScoreDimTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(ScoreDimTest, EqualsReferenceToTheBit) {
  const int64_t dim = GetParam();
  using testing::VectorKind;
  for (int kind = 0; kind < static_cast<int>(VectorKind::kCount); ++kind) {
    std::mt19937_64 random(static_cast<uint64_t>(dim * 100 + kind));
    const std::vector<float> values = testing::RandomRows(static_cast<VectorKind>(kind), 2, dim, random);
    const std::vector<float> left(values.begin(), values.begin() + dim);
    const std::vector<float> right(values.begin() + dim, values.end());
    // By type: bytes that start at an odd address.
    std::vector<std::pair<ElementType, std::vector<uint8_t>>> lefts;
    std::vector<std::pair<ElementType, std::vector<uint8_t>>> rights;
    for (auto [vector, into] : {std::pair(&left, &lefts), std::pair(&right, &rights)}) {
      for (Dtype dtype : kDtypes) {
        std::vector<float> fitting = *vector;
        for (float& x : fitting) {
          if (dtype == Dtype::kF16) x = std::fmin(std::fmax(x, -65504.0f), 65504.0f);
        }
        std::vector<uint8_t> bytes = Stored(dtype, fitting);
        bytes.insert(bytes.begin(), 0);
        into->emplace_back(ElementTypeOf(dtype), bytes);
      }
      std::vector<uint8_t> bytes(1);
      for (float x : *vector) {
        const double wide = double{x} / 3;
        const auto* raw = reinterpret_cast<const uint8_t*>(&wide);
        bytes.insert(bytes.end(), raw, raw + sizeof(wide));
      }
      into->emplace_back(ElementType::kF64, bytes);
    }
    for (const auto& [a_type, a] : lefts) {
      for (const auto& [b_type, b] : rights) {
        const VectorView va = {a.data() + 1, a_type};
        const VectorView vb = {b.data() + 1, b_type};
        for (Metric metric : kMetrics) {
          const float want = ReferenceScore(metric, va, vb, dim);
          for (int64_t target : SimdTargets()) {
            const ScopedSimdTarget scoped(target);
            const float got = CanonicalScore(metric, va, vb, dim);
            ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want))
                << got << " " << want << " " << hwy::TargetName(target);
            const float mirrored = CanonicalScore(metric, vb, va, dim);
            ASSERT_EQ(std::bit_cast<uint32_t>(mirrored), std::bit_cast<uint32_t>(want)) << hwy::TargetName(target);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, ScoreDimTest,
                         ::testing::Values(1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 127, 128, 129, 768),
                         [](const auto& test) { return "Dim" + std::to_string(test.param); });

TEST(CanonicalQueryTest, GivenNormsGiveTheSameBits) {
  std::mt19937_64 random(9);
  const int64_t dim = 37;
  const std::vector<float> values = testing::RandomRows(testing::VectorKind::kGaussian, 150, dim, random);
  std::vector<const void*> rows;
  std::vector<double> norms;
  for (int64_t i = 0; i < 150; ++i) {
    rows.push_back(values.data() + i * dim);
    const std::vector<double> row(values.begin() + i * dim, values.begin() + (i + 1) * dim);
    norms.push_back(testing::ReferenceSum(dim, [&](int64_t j) {
      const double square = row[static_cast<size_t>(j)] * row[static_cast<size_t>(j)];
      return square;
    }));
  }
  for (Metric metric : kMetrics) {
    const CanonicalQuery query(metric, {values.data(), ElementType::kF32}, dim);
    std::vector<float> own(rows.size());
    std::vector<float> given(rows.size());
    query.Score(ElementType::kF32, rows.data(), rows.size(), nullptr, own.data());
    query.Score(ElementType::kF32, rows.data(), rows.size(), norms.data(), given.data());
    EXPECT_EQ(own, given);
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(own[i], ReferenceScore(metric, {rows[0], ElementType::kF32}, {rows[i], ElementType::kF32}, dim));
    }
  }
}

}  // namespace
}  // namespace embedding
