#include "server/search/exact_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "server/table/load_table.h"
#include "server/table/private_memory.h"
#include "tests/server/search/search_testing.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::ElementsAre;
using testing::Stored;

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

void ExpectSame(const ExactRows& rows, const RowNorms& norms, const RowCodes* codes) {
  EXPECT_EQ(BitsOf(rows.norms.norms), BitsOf(norms.norms));
  EXPECT_EQ(rows.norms.unjudged, norms.unjudged);
  ASSERT_EQ(rows.codes.has_value(), codes != nullptr);
  if (codes == nullptr) return;
  ASSERT_EQ(rows.codes->size_bytes, codes->size_bytes);
  EXPECT_EQ(std::memcmp(rows.codes->bytes.get(), codes->bytes.get(), static_cast<size_t>(codes->size_bytes)), 0);
  EXPECT_EQ(BitsOf(rows.codes->alphas), BitsOf(codes->alphas));
  EXPECT_EQ(BitsOf(rows.codes->errors), BitsOf(codes->errors));
  EXPECT_EQ(rows.codes->largest_code_norm, codes->largest_code_norm);
  EXPECT_EQ(rows.codes->mean, codes->mean);
  EXPECT_EQ(rows.codes->inverse_scale, codes->inverse_scale);
  EXPECT_EQ(rows.codes->mean_norm, codes->mean_norm);
  EXPECT_EQ(rows.codes->zero_rows, codes->zero_rows);
}

// 1 + normal numbers, and rows that are zero, not finite, too short and too long to be judged.
std::vector<float> Values(int64_t num_rows, int64_t dim) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(1, 1);
  std::vector<float> values(static_cast<size_t>(num_rows * dim));
  for (float& value : values) value = normal(random);
  const auto fill = [&](int64_t row, float value) { std::fill_n(values.begin() + row * dim, dim, value); };
  fill(0, 0.0f);
  fill(2, 0x1p-70f);
  fill(num_rows / 2, std::numeric_limits<float>::quiet_NaN());
  fill(num_rows - 2, 0x1p70f);
  fill(num_rows - 1, -0.0f);
  return values;
}

std::string AsString(const void* bytes, size_t size) { return {static_cast<const char*>(bytes), size}; }

std::string AsF32(const std::vector<float>& values, int64_t) { return AsString(values.data(), values.size() * 4); }

std::string AsF16(const std::vector<float>& values, int64_t) {
  const std::vector<uint8_t> bytes = Stored(Dtype::kF16, values);
  return AsString(bytes.data(), bytes.size());
}

std::string AsF64(const std::vector<float>& values, int64_t) {
  const std::vector<double> wide(values.begin(), values.end());
  return AsString(wide.data(), wide.size() * 8);
}

std::string AsFvecs(const std::vector<float>& values, int64_t dim) {
  std::string bytes;
  const auto width = static_cast<int32_t>(dim);
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(dim)) {
    bytes += AsString(&width, 4) + AsString(&values[i], static_cast<size_t>(dim) * 4);
  }
  return bytes;
}

struct Case {
  const char* name;
  TableFormat format;
  Dtype dtype;  // in the file
  CodesOption codes;
  bool has_codes;
  std::string (*write)(const std::vector<float>& values, int64_t dim);
  int64_t num_rows;
  int64_t dim;
};

class ExactRowsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ExactRowsTest, WhatIsFoundWhileRowsArriveIsWhatIsFoundAfterwards) {
  const Case& c = GetParam();
  const TempFolder folder;
  WorkerPool pool(3);
  TableOptions options;
  options.name = "t";
  options.path = folder.Write("table", c.write(Values(c.num_rows, c.dim), c.dim));
  options.format = c.format;
  if (c.format == TableFormat::kRaw) {
    options.dtype = c.dtype;
    options.dim = c.dim;
  }
  options.allow_non_finite = true;
  ExactRowsBuilder builder(c.codes);
  EXPECT_FALSE(builder.complete());
  const auto table = LoadTable(options, TableLimits(), pool, {}, &builder);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(builder.complete());
  const ExactRows during = builder.Take(**table);

  const RowNorms norms = ComputeRowNorms(**table, pool);
  const absl::StatusOr<RowCodes> codes = BuildRowCodes(**table, norms, pool);
  ASSERT_TRUE(codes.ok());
  ExpectSame(during, norms, c.has_codes ? &*codes : nullptr);

  const absl::StatusOr<ExactRows> after = ComputeExactRows(**table, c.codes, pool, {});
  ASSERT_TRUE(after.ok());
  ExpectSame(*after, norms, c.has_codes ? &*codes : nullptr);
}

// 5,003 x 301: rows lie across the blocks that are read at once, and the sample leaves out every other row.
INSTANTIATE_TEST_SUITE_P(
    Formats, ExactRowsTest,
    ::testing::Values(Case{"F32", TableFormat::kRaw, Dtype::kF32, CodesOption::kAuto, true, &AsF32, 5003, 301},
                      Case{"F32WithoutCodes", TableFormat::kRaw, Dtype::kF32, CodesOption::kOff, false, &AsF32, 5003,
                           301},
                      Case{"F16", TableFormat::kRaw, Dtype::kF16, CodesOption::kAuto, false, &AsF16, 900, 7},
                      Case{"F16WithCodes", TableFormat::kRaw, Dtype::kF16, CodesOption::kOn, true, &AsF16, 9000, 301},
                      Case{"F64", TableFormat::kRaw, Dtype::kF64, CodesOption::kAuto, true, &AsF64, 5003, 301},
                      Case{"Fvecs", TableFormat::kFvecs, Dtype::kF32, CodesOption::kAuto, true, &AsFvecs, 5003, 301},
                      Case{"Narrow", TableFormat::kRaw, Dtype::kF32, CodesOption::kOn, true, &AsF32, 70000, 1},
                      Case{"FewRows", TableFormat::kRaw, Dtype::kF32, CodesOption::kOn, true, &AsF32, 6, 65536}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(ExactRowsTest, RowsOfTextAreSeenToo) {
  const TempFolder folder;
  WorkerPool pool(2);
  TableOptions options;
  options.name = "t";
  options.path = folder.Write("glove.txt", "zero 0 0 0\none 3 0 4\ntwo -1 2 2\n");
  options.format = TableFormat::kGlove;
  ExactRowsBuilder builder(CodesOption::kOn);
  const auto table = LoadTable(options, TableLimits(), pool, {}, &builder);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(builder.complete());
  const ExactRows rows = builder.Take(**table);
  EXPECT_THAT(rows.norms.norms, ElementsAre(static_cast<float>(kMinNorm), 5, 3));
  EXPECT_THAT(rows.codes->zero_rows, ElementsAre(0));
}

TEST(ExactRowsTest, AfterARefusedFileTheyAreNotComplete) {
  const TempFolder folder;
  WorkerPool pool(2);
  TableOptions options;
  options.name = "t";
  options.path = folder.Write("table", std::string(size_t{4} * 4, '\xff'));  // four NaNs
  options.format = TableFormat::kFbin;
  ExactRowsBuilder builder(CodesOption::kOn);
  EXPECT_FALSE(LoadTable(options, TableLimits(), pool, {}, &builder).ok());
  EXPECT_FALSE(builder.complete());
}

TEST(ExactRowsTest, WithoutRoomForCodesTheTableLoadsAllTheSame) {
  const TempFolder folder;
  WorkerPool pool(2);
  TableOptions options;
  options.name = "t";
  const std::string bytes = AsF32(Values(5003, 301), 301);
  options.path = folder.Write("table", bytes);
  options.format = TableFormat::kRaw;
  options.dtype = Dtype::kF32;
  options.dim = 301;
  options.allow_non_finite = true;
  const int64_t before = TableMemoryUsed();
  SetTableMemoryLimit(before + static_cast<int64_t>(bytes.size()) + int64_t{5003} * 4 + 1000);
  {
    ExactRowsBuilder builder(CodesOption::kAuto);
    const auto table = LoadTable(options, TableLimits(), pool, {}, &builder);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_TRUE(OverBudgetOf(builder.status()).has_value()) << builder.status();
    EXPECT_FALSE(builder.complete());
    // Neither does it keep what the next attempt needs.
    EXPECT_EQ(TableMemoryUsed(), before + static_cast<int64_t>(bytes.size()));
    EXPECT_TRUE(OverBudgetOf(ComputeExactRows(**table, CodesOption::kOn, pool, {}).status()).has_value());
    const absl::StatusOr<ExactRows> rows = ComputeExactRows(**table, CodesOption::kOff, pool, {});
    ASSERT_TRUE(rows.ok());
    EXPECT_THAT(rows->norms.unjudged, ElementsAre(2, 5001));
  }
  SetTableMemoryLimit(0);
  EXPECT_EQ(TableMemoryUsed(), before);
}

TEST(ExactRowsTest, StopsBetweenBlocks) {
  WorkerPool pool(2);
  const auto table = testing::TableOf(Dtype::kF32, 4, std::vector<float>(400, 1.0f));
  const auto rows = ComputeExactRows(*table, CodesOption::kOn, pool, [] { return true; });
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace embedding
