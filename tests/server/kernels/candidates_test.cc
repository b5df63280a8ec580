#include "server/kernels/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/reference.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::RandomByte;
using testing::ReferenceElement;
using testing::ScopedSimdTarget;
using testing::SimdTargets;

class CandidatesTest : public ::testing::TestWithParam<int64_t> {};

// Every target, row type, dimension around the vector widths and count around the tiles, rows at an odd address that
// ends where their memory ends.
TEST_P(CandidatesTest, ErrorsStayWithinTheStatedBound) {
  const ScopedSimdTarget scoped(GetParam());
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16, ElementType::kI8, ElementType::kU8,
                           ElementType::kF8E4M3, ElementType::kF8E5M2}) {
    for (size_t dim : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 63u, 64u, 65u, 100u, 129u, 300u}) {
      for (size_t num_rows : {1u, 2u, 3u, 4u, 5u, 9u}) {
        for (size_t num_queries : {1u, 3u, 4u, 6u}) {
          std::vector<float> values(num_rows * dim);
          for (float& x : values) x = normal(random);
          std::vector<uint8_t> rows(1 + values.size() * ElementSize(type));
          if (ElementSize(type) == 1) {
            for (uint8_t& byte : rows) byte = RandomByte(type, random);
          } else {
            NarrowFromF32(values.data(), values.size(), type, rows.data() + 1);
          }
          const size_t stride = dim + 3;
          std::vector<float> queries(num_queries * stride, 1e30f);
          for (size_t q = 0; q < num_queries; ++q) {
            for (size_t j = 0; j < dim; ++j) queries[q * stride + j] = normal(random);
          }
          std::vector<float> dots(num_queries * num_rows + 1, -7.0f);
          std::vector<float> l2(num_queries * num_rows + 1, -7.0f);
          DotManyToMany({queries.data(), stride, num_queries}, {type, rows.data() + 1, num_rows, dim}, dots.data());
          NegativeSquaredL2ManyToMany({queries.data(), stride, num_queries}, {type, rows.data() + 1, num_rows, dim},
                                      l2.data());
          EXPECT_EQ(dots.back(), -7.0f);
          EXPECT_EQ(l2.back(), -7.0f);
          const double u = 0x1p-24;
          const double n = static_cast<double>(dim);
          for (size_t q = 0; q < num_queries; ++q) {
            for (size_t i = 0; i < num_rows; ++i) {
              double dot = 0;
              double magnitude = 0;
              double squares = 0;
              for (size_t j = 0; j < dim; ++j) {
                const double x = ReferenceElement(type, rows.data() + 1, static_cast<int64_t>(i * dim + j));
                const double y = queries[q * stride + j];
                dot += x * y;
                magnitude += std::abs(x * y);
                squares += (x - y) * (x - y);
              }
              // The reference's own rounding in double is far below the bound.
              ASSERT_NEAR(dots[q * num_rows + i], dot, n * u / (1 - n * u) * magnitude + 1e-13 * (1 + magnitude))
                  << "dim " << dim << " rows " << num_rows << " queries " << num_queries;
              ASSERT_NEAR(l2[q * num_rows + i], -squares,
                          (n + 2) * u / (1 - (n + 2) * u) * squares + 1e-13 * (1 + squares))
                  << "dim " << dim << " rows " << num_rows << " queries " << num_queries;
            }
          }
        }
      }
    }
  }
}

TEST_P(CandidatesTest, SelectsAtLeastTheCut) {
  const ScopedSimdTarget scoped(GetParam());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (size_t count : {0u, 1u, 5u, 16u, 17u, 40u}) {
    std::vector<float> closeness(count);
    std::vector<float> norms(count, 2.0f);
    for (size_t i = 0; i < count; ++i) closeness[i] = static_cast<float>(i % 7);
    std::vector<uint32_t> want;
    for (uint32_t i = 0; i < count; ++i) {
      if (i % 7 >= 5) want.push_back(i);
    }
    std::vector<uint32_t> got(count);
    got.resize(SelectAtLeast(closeness.data(), norms.data(), count, 1.0f, 2.0f, got.data()));  // 1 + 2 * 2
    EXPECT_EQ(got, want);
    got.resize(count);
    EXPECT_EQ(SelectAtLeast(closeness.data(), norms.data(), count, -infinity, 0.0f, got.data()), count);
    // Neither a NaN norm nor a NaN closeness is ever selected.
    if (count == 0) continue;
    norms[count - 1] = nan;
    EXPECT_EQ(SelectAtLeast(closeness.data(), norms.data(), count, -infinity, 0.0f, got.data()), count - 1);
    closeness[0] = nan;
    EXPECT_EQ(SelectAtLeast(closeness.data(), norms.data(), count, -infinity, 0.0f, got.data()),
              count < 2 ? 0 : count - 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CandidatesTest, ::testing::ValuesIn(SimdTargets()),
                         [](const auto& test) { return std::string(hwy::TargetName(test.param)); });

}  // namespace
}  // namespace embedding
