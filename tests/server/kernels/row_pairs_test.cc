#include "server/kernels/row_pairs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/reference.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::RandomByte;
using testing::ReferenceElements;
using testing::ScopedSimdTarget;
using testing::SimdTargets;

// A row in memory of exactly its size, one byte off any alignment: what reads beside it is seen by AddressSanitizer.
class Row {
 public:
  Row(ElementType type, size_t dim, std::mt19937_64& random)
      : memory_(std::make_unique<uint8_t[]>(1 + dim * ElementSize(type))), elements_(dim) {
    if (ElementSize(type) == 1) {
      for (size_t j = 0; j < dim; ++j) memory_[1 + j] = RandomByte(type, random);
    } else {
      std::normal_distribution<float> normal;
      std::vector<float> values(dim);
      for (float& x : values) x = normal(random);
      NarrowFromF32(values.data(), dim, type, data());
    }
    elements_ = ReferenceElements({data(), type}, static_cast<int64_t>(dim));
  }

  uint8_t* data() { return memory_.get() + 1; }
  const std::vector<double>& elements() const { return elements_; }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  std::vector<double> elements_;
};

struct Sums {
  double dot = 0;
  double dot_terms = 0;  // their absolute values
  double squares = 0;
};

Sums SumsOf(const std::vector<double>& a, const std::vector<double>& b) {
  Sums sums;
  for (size_t j = 0; j < a.size(); ++j) {
    sums.dot += a[j] * b[j];
    sums.dot_terms += std::fabs(a[j] * b[j]);
    sums.squares += (a[j] - b[j]) * (a[j] - b[j]);
  }
  return sums;
}

class RowPairsTest : public ::testing::TestWithParam<int64_t> {};

// In double precision, within what rounding each step of a float32 sum may come to (Higham, Accuracy and Stability of
// Numerical Algorithms, 3.1); a difference rounds before its square does.
TEST_P(RowPairsTest, SumsAreThoseOfDoublePrecisionWithinFloat32Rounding) {
  const ScopedSimdTarget scoped(GetParam());
  std::mt19937_64 random(20261130);
  std::normal_distribution<float> normal;
  for (const ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16, ElementType::kI8,
                                 ElementType::kU8, ElementType::kF8E4M3, ElementType::kF8E5M2}) {
    for (const size_t dim : {1u, 2u, 3u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 63u, 64u, 65u, 100u, 129u, 768u}) {
      constexpr size_t kRows = 5;
      std::vector<Row> rows;
      std::vector<const void*> addresses;
      for (size_t i = 0; i < kRows; ++i) addresses.push_back(rows.emplace_back(type, dim, random).data());
      std::vector<float> query(dim);
      for (float& x : query) x = normal(random);
      const std::vector<double> wide_query(query.begin(), query.end());
      std::vector<float> dots(kRows);
      std::vector<float> squares(kRows);
      DotToRows(query.data(), type, addresses.data(), kRows, dim, dots.data());
      SquaredL2ToRows(query.data(), type, addresses.data(), kRows, dim, squares.data());
      const double rounding = std::ldexp(static_cast<double>(dim + 8), -24);
      for (size_t i = 0; i < kRows; ++i) {
        const Sums with_query = SumsOf(wide_query, rows[i].elements());
        ASSERT_NEAR(dots[i], with_query.dot, rounding * with_query.dot_terms) << dim;
        ASSERT_NEAR(squares[i], with_query.squares, rounding * with_query.squares) << dim;
        const Sums of_pair = SumsOf(rows[0].elements(), rows[i].elements());
        ASSERT_NEAR(DotOfPair(type, addresses[0], addresses[i], dim), of_pair.dot, rounding * of_pair.dot_terms) << dim;
        ASSERT_NEAR(SquaredL2OfPair(type, addresses[0], addresses[i], dim), of_pair.squares, rounding * of_pair.squares)
            << dim;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowPairsTest, ::testing::ValuesIn(SimdTargets()),
                         [](const auto& test) { return std::string(hwy::TargetName(test.param)); });

}  // namespace
}  // namespace embedding
