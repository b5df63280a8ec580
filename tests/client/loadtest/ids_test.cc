#include "client/loadtest/ids.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embedding::loadtest {
namespace {

// Pearson's statistic of counts against probabilities; ids are pooled from the rare end until a cell expects 20.
// For c cells it is about chi-square with c - 1 degrees: mean c - 1, variance 2 (c - 1).
void ExpectFits(const std::vector<int64_t>& counts, const std::vector<double>& probability, int64_t draws) {
  double statistic = 0;
  int cells = 0;
  double expected = 0;
  double seen = 0;
  for (size_t id = 0; id < counts.size(); ++id) {
    expected += probability[id] * static_cast<double>(draws);
    seen += static_cast<double>(counts[id]);
    if (expected < 20 && id + 1 < counts.size()) continue;
    statistic += (seen - expected) * (seen - expected) / expected;
    ++cells;
    expected = seen = 0;
  }
  if (cells < 2) return;
  const double degrees = cells - 1;
  EXPECT_LT(statistic, degrees + 5 * std::sqrt(2 * degrees) + 10) << cells << " cells";
}

struct ZipfCase {
  std::string name;
  int64_t num_rows;
  double s;
};

class ZipfTest : public testing::TestWithParam<ZipfCase> {};

TEST_P(ZipfTest, FollowsTheFormula) {
  const auto [name, num_rows, s] = GetParam();
  std::vector<double> probability;
  double sum = 0;
  for (int64_t id = 0; id < num_rows; ++id) sum += std::pow(static_cast<double>(id + 1), -s);
  for (int64_t id = 0; id < num_rows; ++id) probability.push_back(std::pow(static_cast<double>(id + 1), -s) / sum);

  const IdSource source({.kind = IdDistribution::Kind::kZipf, .zipf_s = s}, num_rows, 42);
  std::vector<int64_t> counts(static_cast<size_t>(num_rows));
  std::vector<int64_t> ids(64);
  constexpr int64_t kCalls = 10'000;
  for (uint64_t call = 0; call < kCalls; ++call) {
    source.Fill(call, ids);
    for (const int64_t id : ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, num_rows);
      ++counts[static_cast<size_t>(id)];
    }
  }
  ExpectFits(counts, probability, kCalls * 64);
}

INSTANTIATE_TEST_SUITE_P(All, ZipfTest,
                         testing::Values(ZipfCase{"OneRow", 1, 1.0}, ZipfCase{"TwoRows", 2, 1.0},
                                         ZipfCase{"Flat", 1000, 0.1}, ZipfCase{"Classic", 10'000, 1.0},
                                         ZipfCase{"NearlyOne", 10'000, 0.99}, ZipfCase{"Steep", 10'000, 1.5},
                                         ZipfCase{"VerySteep", 100, 6.0}),
                         [](const auto& param) { return param.param.name; });

TEST(IdSourceTest, UniformIdsAreEquallyOften) {
  constexpr int64_t kRows = 997;
  const IdSource source({}, kRows, 1);
  std::vector<int64_t> counts(kRows);
  std::vector<int64_t> ids(100);
  for (uint64_t call = 0; call < 5000; ++call) {
    source.Fill(call, ids);
    for (const int64_t id : ids) ++counts.at(static_cast<size_t>(id));
  }
  ExpectFits(counts, std::vector<double>(kRows, 1.0 / kRows), 500'000);
}

TEST(IdSourceTest, ACallAsksTheSameIdsWhateverCameBefore) {
  const IdSource source({}, 1'000'000, 9);
  std::vector<int64_t> first(32), again(32), other(32);
  source.Fill(17, first);
  source.Fill(3, other);
  source.Fill(17, again);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(IdSourceTest, SeedsDiffer) {
  std::vector<int64_t> a(32), b(32);
  IdSource({}, 1'000'000, 1).Fill(0, a);
  IdSource({}, 1'000'000, 2).Fill(0, b);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace embedding::loadtest
