#include "server/table/raw.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

TEST(RawTest, TheSizeGivesTheRows) {
  const absl::StatusOr<RowLayout> layout = ParseRaw(Dtype::kF16, 3, 24, {});
  ASSERT_THAT(layout, Succeeds());
  EXPECT_EQ(layout->dtype, Dtype::kF16);
  EXPECT_EQ(layout->num_rows, 4);
  EXPECT_EQ(layout->dim, 3);
  EXPECT_EQ(layout->offset, 0u);
}

TEST(RawTest, NeedsDtypeAndWidth) {
  EXPECT_THAT(ParseRaw(std::nullopt, 3, 24, {}), Fails(kInvalid, HasSubstr("needs dtype=")));
  EXPECT_THAT(ParseRaw(Dtype::kF32, 0, 24, {}), Fails(kInvalid, HasSubstr("needs dim=")));
}

TEST(RawTest, RefusesSizesThatNoRowsFill) {
  EXPECT_THAT(ParseRaw(Dtype::kF32, 3, 0, {}), Fails(kDataLoss, "file is empty"));
  EXPECT_THAT(ParseRaw(Dtype::kF32, 3, 25, {}),
              Fails(kDataLoss, "file has 25 bytes, no multiple of a row's 12 (3 elements F32): 1 bytes are left over"));
}

TEST(RawTest, RefusesTablesOverTheLimits) {
  EXPECT_THAT(ParseRaw(Dtype::kF32, 3, 24, {.max_rows = 1, .max_dim = 3}),
              Fails(kDataLoss, HasSubstr("2 rows of width 3")));
  EXPECT_THAT(ParseRaw(Dtype::kF32, INT64_MAX, 24, {.max_rows = INT64_MAX, .max_dim = INT64_MAX}),
              Fails(kDataLoss, "rows of width 9223372036854775807 pass 2^64 bytes"));
  EXPECT_THAT(ParseRaw(Dtype::kF32, INT64_MAX, 24, {}), Fails(kDataLoss, HasSubstr("width 9223372036854775807")));
}

}  // namespace
}  // namespace embedding
