#include "server/table/row_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void Add(RowCheck* check, int64_t first_row, std::vector<float> rows, int64_t dim) {
  check->Add(reinterpret_cast<const std::byte*>(rows.data()), first_row, static_cast<int64_t>(rows.size()) / dim);
}

TEST(RowCheckTest, CountsZeroRowsOfEitherSign) {
  RowCheck check(ElementType::kF32, 3);
  Add(&check, 0, {0, 0, 0, 0, -0.0f, 0, 0, 0, 1e-45f}, 3);
  EXPECT_EQ(check.zero_rows(), 2);
  EXPECT_THAT(check.RefuseNonFinite(), Succeeds());
}

TEST(RowCheckTest, NamesTheFirstNonFiniteValueAndTheirNumber) {
  RowCheck one(ElementType::kF32, 4);
  Add(&one, 12345, {1, 2, 3, kNan}, 4);
  EXPECT_THAT(one.RefuseNonFinite(), Fails(kDataLoss, HasSubstr("row 12345, column 3 is NaN; 1 non-finite value (")));

  RowCheck many(ElementType::kF32, 2);
  Add(&many, 7, {1, 1, kNan, kInf, -kInf, 0}, 2);
  EXPECT_THAT(many.RefuseNonFinite(), Fails(kDataLoss, HasSubstr("row 8, column 0 is NaN; 3 non-finite values")));
}

TEST(RowCheckTest, FindingsOfSeveralThreadsBecomeOne) {
  RowCheck late(ElementType::kF32, 2);
  Add(&late, 100, {0, 0, kInf, 1}, 2);
  RowCheck early(ElementType::kF32, 2);
  Add(&early, 4, {0, 0, 1, -kInf}, 2);
  RowCheck all(ElementType::kF32, 2);
  all.Merge(late);
  all.Merge(early);
  EXPECT_EQ(all.zero_rows(), 2);
  EXPECT_THAT(all.RefuseNonFinite(), Fails(kDataLoss, HasSubstr("row 5, column 1 is -infinity; 2 non-finite values")));
  EXPECT_THAT(all.TakeNonFiniteRows(), ElementsAre(5, 101));
}

TEST(RowCheckTest, SixteenBitRowsAreJudgedByTheirOwnFormat) {
  const uint16_t f16[] = {0x7C00, 0x7BFF, 0x0001, 0x8000};   // infinity, 65504, the least subnormal, -0
  const uint16_t bf16[] = {0x7C00, 0x7F80, 0xFFC0, 0x7F7F};  // finite, infinity, NaN, the largest finite
  RowCheck half(ElementType::kF16, 2);
  half.Add(reinterpret_cast<const std::byte*>(f16), 0, 2);
  EXPECT_THAT(half.RefuseNonFinite(), Fails(kDataLoss, HasSubstr("row 0, column 0 is +infinity; 1 non-finite value ")));
  EXPECT_EQ(half.zero_rows(), 0);
  RowCheck brain(ElementType::kBF16, 2);
  brain.Add(reinterpret_cast<const std::byte*>(bf16), 0, 2);
  EXPECT_THAT(brain.RefuseNonFinite(),
              Fails(kDataLoss, HasSubstr("row 0, column 1 is +infinity; 2 non-finite values")));
  EXPECT_THAT(brain.TakeNonFiniteRows(), ElementsAre(0, 1));
}

}  // namespace
}  // namespace embedding
