#include "server/kernels/pooling.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::ScopedSimdTarget;
using testing::SimdTargets;

class PoolingKernelTest : public ::testing::TestWithParam<int64_t> {
 protected:
  // Numbers of all sizes, so that each addition rounds; one element before them keeps vectors off their alignment.
  std::vector<float> Floats(size_t count) {
    std::vector<float> values(count + 1);
    for (float& x : values) x = std::ldexp(normal_(random_), static_cast<int>(random_() % 40) - 20);
    return values;
  }

  const ScopedSimdTarget scoped_{GetParam()};
  std::mt19937_64 random_{1};
  std::normal_distribution<float> normal_;
};

constexpr size_t kCounts[] = {0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 100, 768};

TEST_P(PoolingKernelTest, SumsHaveTheBitsOfOneChainOfAdditionsAColumn) {
  for (const size_t count : kCounts) {
    std::vector<double> sums(count + 1), want(count + 1);
    for (int row = 0; row < 5; ++row) {
      const std::vector<float> values = Floats(count);
      const double weight = row == 0 ? 1.0 : static_cast<double>(normal_(random_));
      AddScaled(values.data() + 1, count, weight, sums.data() + 1);
      for (size_t j = 0; j < count; ++j) {
        const double product = weight * static_cast<double>(values[j + 1]);
        want[j + 1] += product;
      }
    }
    ASSERT_EQ(sums, want) << count;
  }
}

TEST_P(PoolingKernelTest, MaximaAreThoseOfEachColumnAndTheFirstOfTwoZeros) {
  for (const size_t count : kCounts) {
    std::vector<float> maxima = Floats(count), want = maxima;
    for (int row = 0; row < 5; ++row) {
      const std::vector<float> values = Floats(count);
      KeepMaxima(values.data() + 1, count, maxima.data() + 1);
      for (size_t j = 1; j <= count; ++j) want[j] = std::max(want[j], values[j]);
    }
    ASSERT_EQ(maxima, want) << count;
    std::vector<float> zeros(count, -0.0f);
    KeepMaxima(std::vector<float>(count, 0.0f).data(), count, zeros.data());
    for (const float zero : zeros) ASSERT_TRUE(std::signbit(zero));
  }
}

TEST_P(PoolingKernelTest, QuotientsAreRoundedOnce) {
  for (const size_t count : kCounts) {
    const std::vector<float> values = Floats(count);
    std::vector<double> doubles(values.begin(), values.end());
    DivideAll(count, 3.0, doubles.data() + 1);
    std::vector<float> floats = values;
    const double divisor = std::sqrt(7.0);
    DivideAllF32(count, divisor, floats.data() + 1);
    for (size_t j = 1; j <= count; ++j) {
      ASSERT_EQ(doubles[j], static_cast<double>(values[j]) / 3.0);
      ASSERT_EQ(std::bit_cast<uint32_t>(floats[j]),
                std::bit_cast<uint32_t>(static_cast<float>(static_cast<double>(values[j]) / divisor)));
    }
    ASSERT_EQ(floats[0], values[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PoolingKernelTest, ::testing::ValuesIn(SimdTargets()),
                         [](const auto& test) { return std::string(hwy::TargetName(test.param)); });

}  // namespace
}  // namespace embedding
