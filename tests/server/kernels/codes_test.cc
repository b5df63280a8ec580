#include "server/kernels/codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::ScopedSimdTarget;
using testing::SimdTargets;

class CodesTest : public ::testing::TestWithParam<int64_t> {
 protected:
  const ScopedSimdTarget scoped_{GetParam()};
  std::mt19937_64 random_{20261130};
};

constexpr size_t kDims[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129, 300};

struct DotShape {
  size_t dim;
  size_t num_rows;
  size_t num_queries;
};

// Every small shape, and those around the sizes of panels: 16 and 32 rows, 4 and 8 queries, 1,024 bytes, of which only
// calls of many queries take several.
std::vector<DotShape> DotShapes() {
  std::vector<DotShape> shapes;
  for (const size_t dim : kDims) {
    for (const size_t num_rows : {1u, 2u, 3u, 4u, 5u, 9u}) {
      for (const size_t num_queries : {1u, 3u, 4u, 6u}) shapes.push_back({dim, num_rows, num_queries});
    }
  }
  for (const size_t dim : {1u, 4u, 63u, 64u, 100u}) {
    for (const size_t num_rows : {15u, 16u, 17u, 32u, 47u, 51u, 65u}) {
      for (const size_t num_queries : {3u, 4u, 5u, 8u, 9u, 13u, 16u}) shapes.push_back({dim, num_rows, num_queries});
    }
  }
  for (const size_t dim : {768u, 1023u, 1024u, 1025u, 2100u}) {
    for (const size_t num_rows : {17u, 51u}) shapes.push_back({dim, num_rows, (dim + 23) / 24 + 1});
  }
  return shapes;
}

// Sums of whole numbers have one value; rows are followed by bytes that a kernel may read and must not count.
template <typename T>
void ExpectExactDots(std::mt19937_64& random, int largest) {
  for (const auto& [dim, num_rows, num_queries] : DotShapes()) {
    const int most = std::min(largest, static_cast<int>((int64_t{1} << 31) / 255 / static_cast<int64_t>(dim)));
    std::vector<uint8_t> codes(1 + num_rows * dim + kCodeSlack, 255);
    for (size_t i = 0; i < num_rows * dim; ++i) codes[1 + i] = static_cast<uint8_t>(random() % 256);
    const size_t stride = dim + kCodeSlack + 3;
    std::vector<T> queries(num_queries * stride, 0);
    for (size_t q = 0; q < num_queries; ++q) {
      for (size_t j = 0; j < dim; ++j) {
        const auto size = 2 * static_cast<uint64_t>(most) + 1;
        queries[q * stride + j] = static_cast<T>(static_cast<int>(random() % size) - most);
      }
    }
    std::vector<int32_t> dots(num_queries * num_rows + 1, -7);
    CodeDotManyToMany(CodedQueries<T>{queries.data(), stride, num_queries}, {codes.data() + 1, num_rows, dim},
                      dots.data());
    EXPECT_EQ(dots.back(), -7);
    for (size_t q = 0; q < num_queries; ++q) {
      for (size_t i = 0; i < num_rows; ++i) {
        int64_t want = 0;
        for (size_t j = 0; j < dim; ++j) want += int64_t{queries[q * stride + j]} * codes[1 + i * dim + j];
        ASSERT_EQ(dots[q * num_rows + i], want)
            << "dim " << dim << " rows " << num_rows << " queries " << num_queries << " query " << q << " row " << i;
      }
    }
  }
}

TEST_P(CodesTest, DotsOfWordsAreExact) { ExpectExactDots<int16_t>(random_, 27000); }

TEST_P(CodesTest, DotsOfBytesAreExact) { ExpectExactDots<int8_t>(random_, 127); }

// Rows in any order, some of them twice; behind the codes lie bytes that must not count.
template <typename T>
void ExpectExactRecordDots(std::mt19937_64& random, int most) {
  constexpr size_t kRows = 20;
  for (size_t dim : kDims) {
    const size_t stride = (dim + kCodeSlack - 1) / kCodeSlack * kCodeSlack + kCodeSlack;
    std::vector<uint8_t> records(kRows * stride);
    for (uint8_t& byte : records) byte = static_cast<uint8_t>(random() % 256);
    std::vector<T> query(dim + kCodeSlack, 0);
    const auto size = 2 * static_cast<uint64_t>(most) + 1;
    for (size_t j = 0; j < dim; ++j) query[j] = static_cast<T>(static_cast<int>(random() % size) - most);
    for (size_t count : {1u, 2u, 3u, 4u, 7u, 33u}) {
      std::vector<uint32_t> ids(count);
      for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % kRows);
      std::vector<int32_t> dots(count + 1, -7);
      CodeDotToRecords(query.data(), {records.data(), stride, dim}, ids.data(), count, dots.data());
      EXPECT_EQ(dots.back(), -7);
      for (size_t i = 0; i < count; ++i) {
        int64_t want = 0;
        for (size_t j = 0; j < dim; ++j) want += int64_t{query[j]} * records[ids[i] * stride + j];
        ASSERT_EQ(dots[i], want) << "dim " << dim << " row " << i;
      }
    }
  }
}

TEST_P(CodesTest, DotsWithScatteredRowsAreExact) {
  ExpectExactRecordDots<int16_t>(random_, 27000);
  ExpectExactRecordDots<int8_t>(random_, 127);
}

TEST_P(CodesTest, DotsReachBothEndsOfTheirRange) {
  constexpr size_t kDim = 768;
  std::vector<uint8_t> codes(kDim + kCodeSlack, 255);
  for (int sign : {1, -1}) {
    std::vector<int16_t> query(kDim + kCodeSlack, 0);
    // 255 * 768 * 10965 is the last multiple below 2^31.
    std::fill_n(query.begin(), kDim, static_cast<int16_t>(sign * 10965));
    int32_t dot = 0;
    CodeDotManyToMany(CodedQueries<int16_t>{query.data(), query.size(), 1}, {codes.data(), 1, kDim}, &dot);
    EXPECT_EQ(dot, sign * 255 * 768 * 10965);
  }
}

// y = alpha c + r for the stated alpha and c, with |r| and |c| not above what is stated, in double arithmetic.
TEST_P(CodesTest, FactsOfARowHold) {
  std::normal_distribution<float> normal;
  for (size_t dim : kDims) {
    for (float size : {1.0f, 1e-18f, 1e18f}) {
      constexpr size_t kRows = 9;
      std::vector<float> rows(kRows * dim), mean(dim), inverse_scale(dim);
      for (float& x : rows) x = normal(random_) * size;
      for (size_t j = 0; j < dim; ++j) {
        mean[j] = normal(random_) * size;
        inverse_scale[j] = std::exp2(normal(random_));
      }
      std::fill_n(rows.begin(), dim, 0.0f);
      std::copy(mean.begin(), mean.end(), rows.begin() + static_cast<ptrdiff_t>(dim));  // y = 0
      std::vector<uint8_t> codes(kRows * dim);
      std::vector<CodedRow> coded(kRows);
      EncodeRows(rows.data(), kRows, dim, mean.data(), inverse_scale.data(), codes.data(), coded.data());
      for (size_t i = 0; i < kRows; ++i) {
        double residual = 0, code_squares = 0, squares = 0;
        for (size_t j = 0; j < dim; ++j) {
          const double y = (double{rows[i * dim + j]} - double{mean[j]}) * double{inverse_scale[j]};
          const double c = codes[i * dim + j] - 128.0;
          ASSERT_LE(std::abs(c), 127);
          residual += (y - double{coded[i].alpha} * c) * (y - double{coded[i].alpha} * c);
          code_squares += c * c;
          squares += y * y;
        }
        EXPECT_GE(double{coded[i].error}, std::sqrt(residual)) << "dim " << dim << " row " << i;
        EXPECT_GE(double{coded[i].code_norm}, std::sqrt(code_squares));
        // And they are of use: at most half a step off in each element, beside rounding.
        EXPECT_LE(double{coded[i].error},
                  1.001 * double{coded[i].alpha} * 0.5 * std::sqrt(static_cast<double>(dim)) + 1e-19);
        EXPECT_LE(double{coded[i].code_norm}, std::sqrt(code_squares) * 1.001);
        EXPECT_LE(squares,
                  1.01 * 127 * 127 * double{coded[i].alpha} * double{coded[i].alpha} * static_cast<double>(dim));
      }
    }
  }
}

TEST_P(CodesTest, RowsThatAreNotFiniteAreCodedWithoutHarm) {
  std::vector<float> rows = {NAN, 1, INFINITY, -INFINITY, 5, NAN, -1};
  const std::vector<float> mean(7, 0.0f), ones(7, 1.0f);
  std::vector<uint8_t> codes(7);
  CodedRow coded;
  EncodeRows(rows.data(), 1, 7, mean.data(), ones.data(), codes.data(), &coded);
  EncodeRows(rows.data(), 7, 1, mean.data(), ones.data(), codes.data(), std::vector<CodedRow>(7).data());
  // Every code stays within its range, whatever it stands for.
  for (const uint8_t code : codes) EXPECT_GE(code, 1);
}

TEST_P(CodesTest, SelectsByTheStatedInequality) {
  std::normal_distribution<float> normal;
  for (size_t count : {1u, 3u, 8u, 15u, 16u, 17u, 100u}) {
    std::vector<int32_t> dots(count);
    std::vector<float> alphas(count), errors(count), norms(count);
    for (size_t i = 0; i < count; ++i) {
      dots[i] = static_cast<int32_t>(random_() % 2000000) - 1000000;
      alphas[i] = std::abs(normal(random_));
      errors[i] = std::abs(normal(random_));
      norms[i] = i % 5 == 4 ? std::numeric_limits<float>::quiet_NaN() : std::abs(normal(random_));
    }
    const CodeCut cut = {1e-6f, 0.25f, 0.5f, 0.125f, 0.3f, 0.5f};
    std::vector<uint32_t> selected(count);
    selected.resize(
        SelectCoded(dots.data(), {alphas.data(), errors.data(), norms.data(), count}, cut, selected.data()));
    EXPECT_TRUE(std::is_sorted(selected.begin(), selected.end()));
    for (uint32_t i = 0; i < count; ++i) {
      const double n = double{norms[i]};
      const double left =
          double{alphas[i]} * (1e-6 * dots[i] + 0.25) + 0.5 * double{errors[i]} - (0.125 + 0.3 * n + 0.5 * n * n);
      if (std::abs(left) < 1e-5) continue;  // roundings may decide
      EXPECT_EQ(std::binary_search(selected.begin(), selected.end(), i), left > 0) << i;
    }
  }
}

TEST_P(CodesTest, AnInfiniteLeastSelectsAllButNan) {
  const std::vector<int32_t> dots = {1, -5, 7};
  const std::vector<float> alphas = {1, 0, 1}, errors = {1, std::numeric_limits<float>::quiet_NaN(), 2},
                           norms = {1, 1, 3};
  CodeCut cut;
  cut.dot_scale = 1;
  cut.least = -std::numeric_limits<float>::infinity();
  std::vector<uint32_t> selected(3);
  ASSERT_EQ(SelectCoded(dots.data(), {alphas.data(), errors.data(), norms.data(), 3}, cut, selected.data()), 2u);
  EXPECT_EQ(selected[0], 0u);
  EXPECT_EQ(selected[1], 2u);
}

INSTANTIATE_TEST_SUITE_P(Targets, CodesTest, ::testing::ValuesIn(SimdTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

}  // namespace
}  // namespace embedding
