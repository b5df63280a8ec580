#include "server/kernels/canonical.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/reference.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::RandomByte;
using testing::ReferenceElements;
using testing::ReferenceSum;
using testing::ScopedSimdTarget;
using testing::SimdTargets;

class CanonicalTest : public ::testing::TestWithParam<int64_t> {};

uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }

// Elements of all sizes, so that each addition rounds: any other order of additions gives other bits.
TEST_P(CanonicalTest, SumsHaveTheBitsOfTheDefinition) {
  const ScopedSimdTarget scoped(GetParam());
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16, ElementType::kF64,
                           ElementType::kI8, ElementType::kU8, ElementType::kF8E4M3, ElementType::kF8E5M2}) {
    for (size_t dim : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 64u, 100u, 127u, 128u, 129u, 768u}) {
      const size_t num_rows = 6;  // 4 at once and the rest one by one
      const auto signed_dim = static_cast<int64_t>(dim);
      std::vector<uint8_t> memory(1 + num_rows * dim * 8);
      std::vector<float> values(num_rows * dim);
      for (float& x : values) x = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 12));
      if (type == ElementType::kF64) {
        for (size_t i = 0; i < values.size(); ++i) {
          const double wide = double{values[i]} / 3;
          std::memcpy(&memory[1 + 8 * i], &wide, 8);
        }
      } else if (ElementSize(type) == 1) {
        for (uint8_t& byte : memory) byte = RandomByte(type, random);
      } else {
        NarrowFromF32(values.data(), values.size(), type, &memory[1]);
      }
      std::vector<double> query(dim);
      for (double& x : query) x = normal(random) * std::ldexp(1.0, static_cast<int>(random() % 30));
      std::vector<const void*> rows;
      for (size_t i = 0; i < num_rows; ++i) rows.push_back(&memory[1 + i * dim * ElementSize(type)]);
      std::vector<double> dots(num_rows);
      std::vector<double> squares(num_rows);
      std::vector<double> norms(num_rows);
      CanonicalDotOneToMany(query.data(), type, rows.data(), num_rows, dim, dots.data());
      CanonicalSquaredL2OneToMany(query.data(), type, rows.data(), num_rows, dim, squares.data());
      CanonicalSquaredNorms(type, rows.data(), num_rows, dim, norms.data());
      for (size_t i = 0; i < num_rows; ++i) {
        const std::vector<double> x = ReferenceElements({rows[i], type}, signed_dim);
        std::vector<double> widened(dim);
        WidenToF64(type, rows[i], dim, widened.data());
        ASSERT_EQ(widened, x);
        const auto at = [](const std::vector<double>& v, int64_t j) { return v[static_cast<size_t>(j)]; };
        const double dot = ReferenceSum(signed_dim, [&](int64_t j) {
          const double product = at(query, j) * at(x, j);
          return product;
        });
        const double square = ReferenceSum(signed_dim, [&](int64_t j) {
          const double difference = at(query, j) - at(x, j);
          const double product = difference * difference;
          return product;
        });
        const double norm = ReferenceSum(signed_dim, [&](int64_t j) {
          const double product = at(x, j) * at(x, j);
          return product;
        });
        ASSERT_EQ(Bits(dots[i]), Bits(dot)) << dim;
        ASSERT_EQ(Bits(squares[i]), Bits(square)) << dim;
        ASSERT_EQ(Bits(norms[i]), Bits(norm)) << dim;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CanonicalTest, ::testing::ValuesIn(SimdTargets()),
                         [](const auto& test) { return std::string(hwy::TargetName(test.param)); });

}  // namespace
}  // namespace embedding
