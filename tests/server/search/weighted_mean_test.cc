#include "server/search/weighted_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

namespace embedding {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

VectorView View(const std::vector<float>& vector) { return {vector.data(), ElementType::kF32}; }
VectorView View(const std::vector<double>& vector) { return {vector.data(), ElementType::kF64}; }

std::vector<double> MeanOf(const WeightedMean& mean, size_t dim) {
  std::vector<double> written(dim);
  mean.Write(written.data());
  return written;
}

TEST(WeightedMeanTest, DividesTheSumByTheSizesOfTheWeights) {
  WeightedMean mean(2);
  mean.Add(View(std::vector<float>{1, 2}), 3);
  mean.Add(View(std::vector<double>{4, 8}), -1);
  EXPECT_THAT(MeanOf(mean, 2), ElementsAre(-0.25, -0.5));  // (3 - 4) / 4, (6 - 8) / 4
}

TEST(WeightedMeanTest, UnitVectorsLeaveTheirLengthsOut) {
  WeightedMean mean(2);
  mean.AddUnit(View(std::vector<float>{0x3p100f, 0x4p100f}), 1);
  mean.AddUnit(View(std::vector<float>{0, 1e-40f}), 1);
  EXPECT_THAT(MeanOf(mean, 2), ElementsAre(DoubleEq(0.3), DoubleEq(0.9)));  // (.6 + 0) / 2, (.8 + 1) / 2
}

TEST(WeightedMeanTest, AZeroVectorAddsItsWeightAlone) {
  WeightedMean mean(1);
  mean.AddUnit(View(std::vector<float>{0}), 3);
  mean.AddUnit(View(std::vector<float>{-7}), 1);
  EXPECT_THAT(MeanOf(mean, 1), ElementsAre(-0.25));
}

TEST(WeightedMeanTest, TheLargestNumbersStayInTheirRange) {
  WeightedMean mean(1);
  for (int i = 0; i < 3; ++i) mean.Add(View(std::vector<double>{FLT_MAX}), i == 0 ? FLT_MAX : 1e-45);
  EXPECT_THAT(MeanOf(mean, 1), ElementsAre(double{FLT_MAX}));
}

}  // namespace
}  // namespace embedding
