// The parts of the candidate pass: bounds, cuts and reservoir.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "server/kernels/candidates.h"
#include "server/search/candidate_bound.h"
#include "server/search/candidate_reservoir.h"
#include "server/search/row_norms.h"
#include "tests/server/search/search_testing.h"
#include "tests/testing/random_vectors.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::Closeness;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::RandomRows;
using testing::ReferenceElements;
using testing::ReferenceScore;
using testing::TableOf;
using testing::VectorKind;

constexpr Metric kMetrics[] = {Metric::kCosine, Metric::kDot, Metric::kEuclidean};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(CandidateBoundTest, RangesHoldTheScoreAndCutsNeverLoseARow) {
  WorkerPool pool(1);
  int64_t rows_checked = 0;
  int64_t rows_cut = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto dim = static_cast<int64_t>(1 + random() % 60);
    const auto kind = static_cast<VectorKind>(random() % static_cast<uint64_t>(VectorKind::kCount));
    const Dtype dtype = seed % 3 == 0 ? Dtype::kF32 : seed % 3 == 1 ? Dtype::kF16 : Dtype::kBF16;
    const auto table = TableOf(dtype, dim, RandomRows(kind, 60, dim, random));
    const RowNorms norms = ComputeRowNorms(*table, pool);
    // A query of doubles near a row, so that float32 has to round it, and distances are small.
    std::vector<double> query = ReferenceElements({table->row(5), ElementTypeOf(dtype)}, dim);
    const double step = seed % 2 == 0 ? 1e-9 : 0.3;
    for (double& x : query) x = x * (1 + step) + step * 1e-3;
    for (double& x : query) {
      if (!std::isfinite(x)) x = 1;
    }
    const std::vector<int64_t> targets = testing::SimdTargets();
    const testing::ScopedSimdTarget scoped(targets[seed % targets.size()]);
    for (Metric metric : kMetrics) {
      const auto bound = CandidateBound::Of(metric, {query.data(), ElementType::kF64}, dim);
      if (!bound.has_value()) continue;
      std::vector<float> values(60);
      const QueryBlock queries{bound->query().data(), static_cast<size_t>(dim), 1};
      const RowBlock rows{ElementTypeOf(dtype), table->rows(), 60, static_cast<size_t>(dim)};
      if (metric == Metric::kEuclidean) {
        NegativeSquaredL2ManyToMany(queries, rows, values.data());
      } else {
        DotManyToMany(queries, rows, values.data());
      }
      std::vector<double> exact(60, NAN);
      for (size_t i = 0; i < 60; ++i) {
        if (std::isnan(norms.norms[i])) continue;
        const VectorView row = {table->row(static_cast<int64_t>(i)), ElementTypeOf(dtype)};
        const float score = ReferenceScore(metric, {query.data(), ElementType::kF64}, row, dim);
        exact[i] = Closeness(metric, score, query);
        const CandidateBound::Range range = bound->RangeOf(values[i], norms.norms[i]);
        // The conversion of the reference's score to closeness rounds in double.
        const double slack = 1e-14 * std::abs(exact[i]);
        ASSERT_LE(double{range.lower}, exact[i] + slack) << "seed " << seed << " row " << i;
        ASSERT_GE(double{range.upper}, exact[i] - slack) << "seed " << seed << " row " << i;
        // The row reaches its own score as a threshold, and no score further away would let go of much.
        const double tau = bound->TauOf(score);
        ASSERT_LE(tau, exact[i] + slack) << "seed " << seed << " row " << i;
        ASSERT_GE(tau, exact[i] - 1e-6 * std::abs(exact[i]) - 1e-44) << "seed " << seed << " row " << i;
        ++rows_checked;
      }
      for (size_t t = 0; t < 60; ++t) {
        if (std::isnan(exact[t])) continue;
        const float tau = bound->RangeOf(values[t], norms.norms[t]).lower;
        const CandidateBound::Cut cut = bound->CutFor(tau);
        std::vector<uint32_t> kept(60);
        kept.resize(SelectAtLeast(values.data(), norms.norms.data(), 60, cut.a, cut.b, kept.data()));
        for (uint32_t i = 0; i < 60; ++i) {
          const bool is_kept = std::binary_search(kept.begin(), kept.end(), i);
          if (std::isnan(exact[i])) {
            ASSERT_FALSE(is_kept);
          } else if (!is_kept) {
            ++rows_cut;
            ASSERT_LT(exact[i], double{tau} + 1e-14 * std::abs(exact[i])) << "seed " << seed << " row " << i;
          }
        }
      }
    }
  }
  EXPECT_GT(rows_checked, 20000);
  EXPECT_GT(rows_cut, 200000);  // the cut does cut
}

TEST(CandidateBoundTest, MarginIsSmall) {
  // d = 768: about d * 2^-24 of the query's length, some 5e-5.
  const std::vector<float> query(768, 0.1f);
  const auto bound = CandidateBound::Of(Metric::kCosine, {query.data(), ElementType::kF32}, 768);
  ASSERT_TRUE(bound.has_value());
  const CandidateBound::Range range = bound->RangeOf(0.0f, 1.0f);
  EXPECT_GT(range.upper, 0);
  EXPECT_LT(range.upper, 2e-4);
}

TEST(CandidateBoundTest, ThresholdBeyondEveryClosenessIsNoNumberThatOverflows) {
  const float limit = std::numeric_limits<float>::max();
  const std::vector<double> query(4, 1e-10);  // 2^t is large
  for (Metric metric : kMetrics) {
    const auto bound = CandidateBound::Of(metric, {query.data(), ElementType::kF64}, 4);
    ASSERT_TRUE(bound.has_value());
    const float closest = metric == Metric::kEuclidean ? -limit : limit;
    EXPECT_GT(bound->TauOf(closest), 0x1p100f);
    EXPECT_LE(bound->TauOf(closest), limit);
    EXPECT_LT(bound->TauOf(-closest), -0x1p100f);
    // A cut from either is a number: it keeps all rows, or none.
    const std::vector<float> values = {-1, -0.0f};
    const std::vector<float> norms = {1, 0x1p-60f};
    for (const float threshold : {closest, -closest}) {
      const CandidateBound::Cut cut = bound->CutFor(bound->TauOf(threshold));
      std::vector<uint32_t> kept(2);
      const size_t n = SelectAtLeast(values.data(), norms.data(), 2, cut.a, cut.b, kept.data());
      // Euclidean: the cut alone cannot rule out a distance of 0, the ranges do.
      const size_t none = metric == Metric::kEuclidean ? 1 : 0;
      EXPECT_EQ(n, threshold == closest ? none : 2) << static_cast<int>(metric);
    }
  }
}

TEST(CandidateBoundTest, RefusesExtremeQueries) {
  const std::vector<double> zero(4, 0.0);
  const std::vector<double> tiny(4, 1e-30);
  const std::vector<double> huge(4, 1e30);
  const auto has_bound = [](Metric metric, const std::vector<double>& query) {
    return CandidateBound::Of(metric, {query.data(), ElementType::kF64}, 4).has_value();
  };
  EXPECT_FALSE(has_bound(Metric::kCosine, zero));
  EXPECT_FALSE(has_bound(Metric::kDot, tiny));
  EXPECT_FALSE(has_bound(Metric::kCosine, huge));
  EXPECT_FALSE(has_bound(Metric::kEuclidean, huge));
  EXPECT_TRUE(has_bound(Metric::kEuclidean, zero));
  EXPECT_TRUE(has_bound(Metric::kEuclidean, tiny));
}

TEST(RowNormsTest, ClassifiesRows) {
  WorkerPool pool(2);
  // 3-4-5, zeros, too long, too short, NaN, infinity.
  const auto table = TableOf(Dtype::kF32, 2, {3, 4, 0, -0.0f, 1e30f, 0, 1e-30f, 0, NAN, 1, INFINITY, 1});
  const RowNorms norms = ComputeRowNorms(*table, pool);
  EXPECT_EQ(norms.norms[0], 5.0f);
  EXPECT_EQ(norms.norms[1], 0x1p-60f);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(norms.norms[i])) << i;
  EXPECT_THAT(norms.unjudged, ElementsAre(2, 3));
}

TEST(CandidateReservoirTest, KeepsEveryRowThatMayBelongToTheBest) {
  std::mt19937_64 random(3);
  for (size_t k : {1u, 5u, 200u}) {
    CandidateReservoir first(k, 5000);
    CandidateReservoir second(k, 5000);
    std::vector<Candidate> all;
    for (int32_t id = 0; id < 5000; ++id) {
      const auto middle = static_cast<float>(random() % 10000);
      all.push_back({middle - 3, middle + 3, id});
      ASSERT_TRUE((id % 2 == 0 ? first : second).Add(all.back()));
    }
    first.Merge(second);
    first.Shrink();
    std::vector<float> lowers;
    lowers.reserve(all.size());
    for (const Candidate& candidate : all) lowers.push_back(candidate.lower);
    std::sort(lowers.rbegin(), lowers.rend());
    EXPECT_EQ(first.tau(), lowers[k - 1]);
    std::vector<int32_t> want;
    for (const Candidate& candidate : all) {
      if (candidate.upper >= lowers[k - 1]) want.push_back(candidate.id);
    }
    std::vector<int32_t> got;
    for (const Candidate& candidate : first.candidates()) got.push_back(candidate.id);
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got, want);
  }
}

TEST(CandidateReservoirTest, FewerThanKAreAllKept) {
  CandidateReservoir reservoir(10, 100);
  reservoir.Add({1, 2, 7});
  reservoir.Shrink();
  EXPECT_EQ(reservoir.tau(), -kInfinity);
  EXPECT_EQ(reservoir.candidates().size(), 1u);
}

TEST(CandidateReservoirTest, TauFromElsewhereRulesOut) {
  CandidateReservoir reservoir(1, 100);
  reservoir.RaiseTau(5);
  reservoir.RaiseTau(4);  // never falls
  EXPECT_TRUE(reservoir.Add({3, 4.5f, 1}));
  EXPECT_TRUE(reservoir.Add({3, 5, 2}));
  ASSERT_EQ(reservoir.candidates().size(), 1u);
  EXPECT_EQ(reservoir.candidates()[0].id, 2);
}

TEST(CandidateReservoirTest, GivesUpWhenAllRowsTie) {
  CandidateReservoir reservoir(3, 1000);
  int added = 0;
  while (added < 100000 && reservoir.Add({1, 1, added})) ++added;
  EXPECT_GE(added, 500);
  EXPECT_LE(added, 1000);
  EXPECT_THAT(reservoir.candidates(), IsEmpty());
  EXPECT_FALSE(reservoir.Add({9, 9, 1}));
}

}  // namespace
}  // namespace embedding
