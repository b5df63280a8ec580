// Codes of rows and the bounds that they give.
#include "server/search/code_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tests/server/search/search_testing.h"
#include "tests/testing/random_vectors.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::Closeness;
using ::testing::ElementsAre;
using testing::RandomRows;
using testing::ReferenceElements;
using testing::ReferenceScore;
using testing::TableOf;
using testing::VectorKind;

constexpr Metric kMetrics[] = {Metric::kCosine, Metric::kDot, Metric::kEuclidean};
constexpr int64_t kRows = 60;

// Sums over the bytes of the rows, as the pass computes them.
std::vector<int32_t> Dots(const CodeBound& bound, const RowCodes& codes, bool in_bytes) {
  const size_t dim = codes.mean.size();
  const CodeBlock rows = {reinterpret_cast<const uint8_t*>(codes.bytes.get()), kRows, dim};
  std::vector<int32_t> dots(kRows);
  if (in_bytes) {
    std::vector<int8_t> query(bound.bytes());
    query.resize(dim + kCodeSlack);
    CodeDotManyToMany(CodedQueries<int8_t>{query.data(), query.size(), 1}, rows, dots.data());
  } else {
    std::vector<int16_t> query(bound.words());
    query.resize(dim + kCodeSlack);
    CodeDotManyToMany(CodedQueries<int16_t>{query.data(), query.size(), 1}, rows, dots.data());
  }
  return dots;
}

// What codes find hard beside the kinds of RandomRows: a common mean, and a few columns that outweigh the others.
std::vector<float> Rows(uint64_t seed, int64_t dim, std::mt19937_64& random) {
  auto rows = RandomRows(static_cast<VectorKind>(seed % static_cast<uint64_t>(VectorKind::kCount)), kRows, dim, random);
  if (seed % 5 == 1) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] += static_cast<float>(i % static_cast<size_t>(dim) % 3);
  }
  if (seed % 5 == 2) {
    for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(dim)) rows[i] *= 1000;
  }
  return rows;
}

TEST(CodeBoundTest, RangesHoldTheScoreAndCutsNeverLoseARow) {
  WorkerPool pool(1);
  int64_t rows_checked = 0;
  int64_t rows_cut = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto dim = static_cast<int64_t>(1 + random() % 150);
    const Dtype dtype = seed % 3 == 0 ? Dtype::kF32 : seed % 3 == 1 ? Dtype::kF16 : Dtype::kBF16;
    const std::vector<int64_t> targets = testing::SimdTargets();
    const testing::ScopedSimdTarget scoped(targets[seed % targets.size()]);
    const auto table = TableOf(dtype, dim, Rows(seed, dim, random));
    const RowNorms norms = ComputeRowNorms(*table, pool);
    const absl::StatusOr<RowCodes> codes = BuildRowCodes(*table, norms, pool);
    ASSERT_TRUE(codes.ok());
    std::vector<double> query = ReferenceElements({table->row(5), ElementTypeOf(dtype)}, dim);
    const double step = seed % 2 == 0 ? 1e-9 : 0.3;
    for (double& x : query) x = x * (1 + step) + step * 1e-3;
    for (double& x : query) {
      if (!std::isfinite(x)) x = 1;
    }
    for (Metric metric : kMetrics) {
      for (bool in_bytes : {false, true}) {
        const auto bound = CodeBound::Of(metric, {query.data(), ElementType::kF64}, *codes, in_bytes);
        if (!bound.has_value()) continue;
        const std::vector<int32_t> dots = Dots(*bound, *codes, in_bytes);
        const auto range = [&](size_t i) {
          return bound->RangeOf(dots[i], codes->alphas[i], codes->errors[i], norms.norms[i]);
        };
        std::vector<double> exact(kRows, NAN);
        for (size_t i = 0; i < kRows; ++i) {
          if (std::isnan(codes->errors[i])) continue;
          const VectorView row = {table->row(static_cast<int64_t>(i)), ElementTypeOf(dtype)};
          exact[i] = Closeness(metric, ReferenceScore(metric, {query.data(), ElementType::kF64}, row, dim), query);
          const double slack = 1e-14 * std::abs(exact[i]);
          ASSERT_LE(double{range(i).lower}, exact[i] + slack) << "seed " << seed << " row " << i;
          ASSERT_GE(double{range(i).upper}, exact[i] - slack) << "seed " << seed << " row " << i;
          ++rows_checked;
        }
        for (size_t t = 0; t < kRows; ++t) {
          if (std::isnan(exact[t])) continue;
          // The closeness itself, which cuts as closely as a cut can, and a bound as the pass meets it.
          for (const float tau : {static_cast<float>(exact[t]), range(t).lower}) {
            std::vector<uint32_t> kept(kRows);
            kept.resize(SelectCoded(dots.data(),
                                    {codes->alphas.data(), codes->errors.data(), norms.norms.data(), kRows},
                                    bound->CutFor(tau), kept.data()));
            for (uint32_t i = 0; i < kRows; ++i) {
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
    }
  }
  EXPECT_GT(rows_checked, 40000);
  EXPECT_GT(rows_cut, 400000);  // the cut does cut
}

// d = 768, rows as normal numbers: about 0.0077 of the cosine with 16 bits and twice that with 8 bits.
TEST(CodeBoundTest, MarginIsSmall) {
  WorkerPool pool(2);
  std::mt19937_64 random(4);
  const auto table = TableOf(Dtype::kF32, 768, RandomRows(VectorKind::kGaussian, kRows, 768, random));
  const RowNorms norms = ComputeRowNorms(*table, pool);
  const absl::StatusOr<RowCodes> codes = BuildRowCodes(*table, norms, pool);
  ASSERT_TRUE(codes.ok());
  for (bool in_bytes : {false, true}) {
    const auto bound = CodeBound::Of(Metric::kCosine, {table->row(3), ElementType::kF32}, *codes, in_bytes);
    ASSERT_TRUE(bound.has_value());
    const std::vector<int32_t> dots = Dots(*bound, *codes, in_bytes);
    double widest = 0;
    for (size_t i = 0; i < kRows; ++i) {
      const auto range = bound->RangeOf(dots[i], codes->alphas[i], codes->errors[i], norms.norms[i]);
      widest = std::max(widest, double{range.upper} - double{range.lower});
    }
    // F is in [1, 2).
    EXPECT_LT(widest, in_bytes ? 2 * 2 * 0.025 : 2 * 2 * 0.012);
  }
}

TEST(RowCodesTest, TakesOffWhatRowsShare) {
  WorkerPool pool(2);
  std::mt19937_64 random(5);
  std::vector<float> rows = RandomRows(VectorKind::kGaussian, 1000, 20, random);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % 20 == 7) rows[i] = rows[i] * 100 + 1000;
  }
  const auto table = TableOf(Dtype::kF32, 20, rows);
  const absl::StatusOr<RowCodes> codes = BuildRowCodes(*table, ComputeRowNorms(*table, pool), pool);
  ASSERT_TRUE(codes.ok());
  EXPECT_NEAR(codes->mean[7], 1000, 15);
  EXPECT_NEAR(codes->mean[8], 0, 0.2);
  EXPECT_NEAR(codes->inverse_scale[7], 1, 0.01);
  EXPECT_NEAR(codes->inverse_scale[8], 100, 10);
  EXPECT_EQ(codes->size_bytes, 20000);
}

TEST(RowCodesTest, RowsThatCodesCannotJudgeAreKeptApart) {
  WorkerPool pool(2);
  const auto table = TableOf(Dtype::kF32, 2, {3, 4, 0, -0.0f, 1e30f, 0, 1e-30f, 0, NAN, 1, 0, 0});
  const absl::StatusOr<RowCodes> codes = BuildRowCodes(*table, ComputeRowNorms(*table, pool), pool);
  ASSERT_TRUE(codes.ok());
  EXPECT_FALSE(std::isnan(codes->errors[0]));
  for (size_t i = 1; i < 6; ++i) EXPECT_TRUE(std::isnan(codes->errors[i])) << i;
  EXPECT_THAT(codes->zero_rows, ElementsAre(1, 5));
}

TEST(CodeBoundTest, RefusesQueriesWithoutAScale) {
  WorkerPool pool(1);
  const auto table = TableOf(Dtype::kF32, 4, {1, 2, 3, 4});
  const absl::StatusOr<RowCodes> codes = BuildRowCodes(*table, ComputeRowNorms(*table, pool), pool);
  ASSERT_TRUE(codes.ok());
  for (double x : {0.0, 1e-30, 1e30}) {
    const std::vector<double> query(4, x);
    for (Metric metric : kMetrics) {
      EXPECT_FALSE(CodeBound::Of(metric, {query.data(), ElementType::kF64}, *codes, false).has_value()) << x;
    }
  }
}

}  // namespace
}  // namespace embedding
