#include "server/search/hnsw_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "server/search/row_norms.h"
#include "tests/server/search/search_testing.h"

namespace embedding {
namespace {

using testing::ReferenceRows;
using testing::TableOf;

constexpr int64_t kRows = 1000;

struct RowsCase {
  const char* name;
  Dtype dtype;
  Metric metric;
  int64_t dim;
  float common = 0;   // added to every element: a mean that the codes take off
  float uneven = 1;   // factor of the first column
  float spread = 1;   // of rows around one of 20 centres, in lengths of the centres
  bool coded = true;  // what is wanted
};

std::vector<float> ValuesOf(const RowsCase& test) {
  std::mt19937_64 random(20261130);
  std::normal_distribution<float> normal;
  std::vector<float> centres(static_cast<size_t>(20 * test.dim));
  for (float& x : centres) x = test.spread < 1 ? normal(random) : 0;
  std::vector<float> values;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto centre = static_cast<size_t>(row % 20 * test.dim);
    for (size_t j = 0; j < static_cast<size_t>(test.dim); ++j) {
      const float value = centres[centre + j] + test.spread * normal(random) + test.common;
      values.push_back(j == 0 ? value * test.uneven : value);
    }
  }
  return values;
}

// What hnsw_rows.h calls closeness, of a query of its own length, in double.
double TrueCloseness(Metric metric, const double* a, const double* b, size_t dim) {
  double ab = 0, aa = 0, bb = 0, squares = 0;
  for (size_t j = 0; j < dim; ++j) {
    ab += a[j] * b[j];
    aa += a[j] * a[j];
    bb += b[j] * b[j];
    squares += (a[j] - b[j]) * (a[j] - b[j]);
  }
  if (metric == Metric::kEuclidean) return -squares;
  return metric == Metric::kDot ? ab : ab / std::sqrt(aa * bb);
}

class HnswRowsTest : public ::testing::TestWithParam<RowsCase> {};

TEST_P(HnswRowsTest, ClosenessIsAsCloseAsItSays) {
  const RowsCase& test = GetParam();
  const auto dim = static_cast<size_t>(test.dim);
  const auto table = TableOf(test.dtype, test.dim, ValuesOf(test));
  const std::vector<double> values = ReferenceRows(*table);
  WorkerPool pool(2);
  const auto rows = HnswRows::Build(*table, test.metric, ComputeRowNorms(*table, pool),
                                    std::vector<bool>(static_cast<size_t>(kRows), true), pool);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->is_coded(), test.coded);
  EXPECT_EQ(rows->size_bytes() > 0, test.coded);
  std::vector<uint32_t> ids(kRows);
  std::iota(ids.rbegin(), ids.rend(), 0);
  std::vector<float> closeness(kRows);
  HnswQuery query(*rows);
  double furthest_off = 0;
  double widest = 0;
  const auto compare = [&](uint32_t q, double scale) {
    rows->Judge(query, ids.data(), ids.size(), closeness.data());
    for (size_t i = 0; i < ids.size(); ++i) {
      const double want = scale * TrueCloseness(test.metric, &values[q * dim], &values[ids[i] * dim], dim);
      const double off = std::abs(double{closeness[i]} - want);
      ASSERT_LE(off, double{rows->ReachOf(query, ids[i], closeness[i])}) << "row " << ids[i];
      furthest_off = std::max(furthest_off, off / scale);
      widest = std::max(widest, std::abs(want) / scale);
    }
  };
  for (const uint32_t q : {0u, 7u, 999u}) {
    query.SetRow(q);
    ASSERT_NO_FATAL_FAILURE(compare(q, 1)) << "of row " << q;
    const double* vector = &values[q * dim];
    ASSERT_TRUE(query.SetVector({vector, ElementType::kF64}));
    const double length = std::sqrt(std::inner_product(vector, vector + dim, vector, 0.0));
    ASSERT_NO_FATAL_FAILURE(compare(q, test.metric == Metric::kDot ? 1 / length : 1)) << "of the vector of row " << q;
  }
  EXPECT_LE(furthest_off, (test.coded ? 0.04 : 1e-4) * widest);
}

// A caller's vector is taken at length 1 for cosine and dot, which changes no order.
TEST_P(HnswRowsTest, VectorOfAnyLengthOrdersRowsAlike) {
  const RowsCase& test = GetParam();
  if (test.metric == Metric::kEuclidean) GTEST_SKIP() << "lengths matter there";
  const auto table = TableOf(test.dtype, test.dim, ValuesOf(test));
  WorkerPool pool(1);
  const auto rows = HnswRows::Build(*table, test.metric, ComputeRowNorms(*table, pool),
                                    std::vector<bool>(static_cast<size_t>(kRows), true), pool);
  ASSERT_TRUE(rows.ok());
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> vector(static_cast<size_t>(test.dim));
  for (float& x : vector) x = normal(random);
  const std::vector<uint32_t> ids = {3, 500, 999, 3};
  std::vector<std::vector<float>> closeness;
  HnswQuery query(*rows);
  for (const float length : {1.0f, 1024.0f}) {
    std::vector<float> scaled = vector;
    for (float& x : scaled) x *= length;
    ASSERT_TRUE(query.SetVector({scaled.data(), ElementType::kF32}));
    rows->Judge(query, ids.data(), ids.size(), closeness.emplace_back(ids.size()).data());
  }
  EXPECT_EQ(closeness[0], closeness[1]);
  EXPECT_EQ(closeness[0][0], closeness[0][3]);
  std::fill(vector.begin(), vector.end(), 0.0f);
  EXPECT_FALSE(query.SetVector({vector.data(), ElementType::kF32}));
}

// Far from zero, between rows that lie close together: in float32 the vector would be as far off as the rows are apart.
TEST(HnswRowsOfATableTest, VectorsOfDoublesAreCentredBeforeTheyAreRounded) {
  const RowsCase test = {"", Dtype::kF32, Metric::kEuclidean, 64, 1000};
  const auto table = TableOf(test.dtype, test.dim, ValuesOf(test));
  const std::vector<double> values = ReferenceRows(*table);
  const auto dim = static_cast<size_t>(test.dim);
  std::vector<double> vector(dim);
  for (size_t i = 0; i < values.size(); ++i) vector[i % dim] += values[i] / double{kRows};
  WorkerPool pool(1);
  const auto rows = HnswRows::Build(*table, test.metric, ComputeRowNorms(*table, pool),
                                    std::vector<bool>(static_cast<size_t>(kRows), true), pool);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_TRUE(rows->is_coded());
  HnswQuery query(*rows);
  ASSERT_TRUE(query.SetVector({vector.data(), ElementType::kF64}));
  for (uint32_t row = 0; row < kRows; ++row) {
    float closeness = 0;
    rows->Judge(query, &row, 1, &closeness);
    const double want = TrueCloseness(test.metric, vector.data(), &values[row * dim], dim);
    ASSERT_LE(std::abs(double{closeness} - want), double{rows->ReachOf(query, row, closeness)}) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tables, HnswRowsTest,
    ::testing::Values(RowsCase{"Cosine", Dtype::kF32, Metric::kCosine, 100},
                      RowsCase{"Dot", Dtype::kF32, Metric::kDot, 100},
                      RowsCase{"Euclidean", Dtype::kF32, Metric::kEuclidean, 100},
                      RowsCase{"CommonMeanCosine", Dtype::kF32, Metric::kCosine, 64, 3},
                      RowsCase{"CommonMeanDot", Dtype::kF32, Metric::kDot, 64, 3},
                      RowsCase{"CommonMeanEuclidean", Dtype::kF32, Metric::kEuclidean, 64, 3},
                      RowsCase{"UnevenColumns", Dtype::kF32, Metric::kCosine, 64, 0, 8},
                      RowsCase{"OneColumn", Dtype::kF32, Metric::kEuclidean, 1},
                      RowsCase{"HalfPrecision", Dtype::kF16, Metric::kCosine, 33},
                      RowsCase{"Integers", Dtype::kI8, Metric::kEuclidean, 65},
                      RowsCase{"TightClusters", Dtype::kF32, Metric::kCosine, 32, 0, 1, 1e-4f, false},
                      RowsCase{"TightClustersEuclidean", Dtype::kF32, Metric::kEuclidean, 32, 0, 1, 1e-4f, false},
                      RowsCase{"TightClustersBfloat16", Dtype::kBF16, Metric::kEuclidean, 32, 0, 1, 1e-2f, false}),
    [](const auto& test) { return std::string(test.param.name); });

// Of a few rows of each group, most of the closest would be rows of other groups, which codes do tell apart.
TEST(HnswRowsOfATableTest, SmallTightGroupsInALargeTableAreJudgedAsStored) {
  std::mt19937_64 random(20261130);
  std::normal_distribution<float> normal;
  std::vector<float> centres(size_t{400} * 32);
  for (float& x : centres) x = normal(random);
  std::vector<float> values;
  for (size_t i = 0; i < size_t{20000} * 32; ++i)
    values.push_back(centres[i % centres.size()] + 1e-3f * normal(random));
  const auto table = TableOf(Dtype::kF32, 32, values);
  WorkerPool pool(2);
  const RowNorms norms = ComputeRowNorms(*table, pool);
  const auto rows = HnswRows::Build(*table, Metric::kCosine, norms, std::vector<bool>(20000, true), pool);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_FALSE(rows->is_coded());
}

TEST(HnswRowsOfATableTest, CodesAreRefusedWhereTheirMemoryIsNotAllowed) {
  const auto table = TableOf(Dtype::kF32, 100, std::vector<float>(100000, 1.5f));
  WorkerPool pool(1);
  const RowNorms norms = ComputeRowNorms(*table, pool);
  const std::vector<bool> inside(1000, true);
  SetTableMemoryLimit(TableMemoryUsed() + int64_t{1000} * 128 - 1);  // 100 codes and three facts: two lines of 64 bytes
  EXPECT_TRUE(OverBudgetOf(HnswRows::Build(*table, Metric::kDot, norms, inside, pool).status()).has_value());
  SetTableMemoryLimit(TableMemoryUsed() + int64_t{1000} * 128);
  EXPECT_TRUE(HnswRows::Build(*table, Metric::kDot, norms, inside, pool).ok());
  SetTableMemoryLimit(0);
}

TEST(HnswRowsOfATableTest, StopsWhenAsked) {
  const auto table = TableOf(Dtype::kF32, 100, std::vector<float>(100000, 1.5f));
  WorkerPool pool(1);
  const RowNorms norms = ComputeRowNorms(*table, pool);
  const auto rows =
      HnswRows::Build(*table, Metric::kDot, norms, std::vector<bool>(1000, true), pool, [] { return true; });
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kCancelled);
}

// Of wide rows that takes seconds.
TEST(HnswRowsOfATableTest, StopsWhileItLooksWhetherCodesWillDo) {
  const auto table = TableOf(Dtype::kF32, 100, std::vector<float>(100000, 1.5f));
  WorkerPool pool(1);
  const RowNorms norms = ComputeRowNorms(*table, pool);
  // Coding asks once for each 64 rows, and twice at the end: 18 times. Then each 256 rows are compared.
  int asked = 0;
  const auto rows = HnswRows::Build(*table, Metric::kDot, norms, std::vector<bool>(1000, true), pool,
                                    [&asked] { return ++asked > 20; });
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kCancelled);
  EXPECT_LE(asked, 24);
}

}  // namespace
}  // namespace embedding
