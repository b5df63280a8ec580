#include "server/search/finite.h"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace embedding {
namespace {

TEST(FirstUnfitElementTest, FindsTheFirstInRowOrder) {
  std::vector<float> vectors(5 * 33, 1);
  EXPECT_FALSE(FirstUnfitElement(ElementType::kF32, vectors.data(), 5, 33).has_value());
  vectors[4 * 33] = NAN;
  vectors[2 * 33 + 32] = -INFINITY;
  const std::optional<UnfitElement> unfit = FirstUnfitElement(ElementType::kF32, vectors.data(), 5, 33);
  ASSERT_TRUE(unfit.has_value());
  EXPECT_EQ(unfit->row, 2);
  EXPECT_EQ(unfit->column, 32);
  EXPECT_EQ(unfit->value, -INFINITY);
}

TEST(FirstUnfitElementTest, DoublesEndAtTheRangeOfFloats) {
  std::vector<double> vectors = {FLT_MAX, -FLT_MAX, DBL_TRUE_MIN, std::nextafter(FLT_MAX, INFINITY)};
  const std::optional<UnfitElement> unfit = FirstUnfitElement(ElementType::kF64, vectors.data(), 2, 2);
  ASSERT_TRUE(unfit.has_value());
  EXPECT_EQ(unfit->row, 1);
  EXPECT_EQ(unfit->column, 1);
  EXPECT_FALSE(FirstUnfitElement(ElementType::kF64, vectors.data(), 1, 3).has_value());
}

TEST(FirstUnfitElementTest, ReadsSixteenBitTypesAtAnyAddress) {
  // Bits that are infinity in one type and finite in the other.
  for (const auto& [type, bits] :
       {std::pair{ElementType::kF16, uint16_t{0x7C00}}, {ElementType::kBF16, uint16_t{0x7F80}}}) {
    std::vector<char> bytes(7, 0);
    EXPECT_FALSE(FirstUnfitElement(type, bytes.data() + 1, 1, 3).has_value());
    std::memcpy(bytes.data() + 5, &bits, sizeof bits);
    const std::optional<UnfitElement> unfit = FirstUnfitElement(type, bytes.data() + 1, 1, 3);
    ASSERT_TRUE(unfit.has_value());
    EXPECT_EQ(unfit->column, 2);
  }
  const uint16_t large = 0x7C00;  // 2.7e36 as bfloat16
  EXPECT_FALSE(FirstUnfitElement(ElementType::kBF16, &large, 1, 1).has_value());
}

TEST(FirstUnfitElementTest, NoVectorsFit) {
  for (const ElementType type : {ElementType::kF32, ElementType::kF64}) {
    EXPECT_FALSE(FirstUnfitElement(type, nullptr, 0, 7).has_value());
  }
}

}  // namespace
}  // namespace embedding
