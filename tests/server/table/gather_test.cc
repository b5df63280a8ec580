#include "server/table/gather.h"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace embedding {
namespace {

// Bits of `count` elements that begin at an odd address.
template <typename T>
std::vector<T> Gather(const EmbeddingTable& table, const std::vector<int64_t>& ids, Dtype output) {
  std::vector<T> elements(ids.size() * static_cast<size_t>(table.dim()));
  std::vector<std::byte> bytes(elements.size() * sizeof(T) + 1);
  EXPECT_FALSE(GatherRows(table, ids, output, bytes.data() + 1).has_value());
  if (!elements.empty()) std::memcpy(elements.data(), bytes.data() + 1, bytes.size() - 1);
  return elements;
}

TEST(GatherTest, RowsComeInTheOrderOfTheIds) {
  std::vector<float> rows(100 * 3);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const auto table = TableFromMemory("t", Dtype::kF32, 100, 3, rows.data());
  std::vector<int64_t> ids;
  std::vector<float> want;
  for (int64_t i = 0; i < 500; ++i) {
    ids.push_back(i * 37 % 100);
    for (int64_t j = 0; j < 3; ++j) want.push_back(static_cast<float>(ids.back() * 3 + j));
  }
  EXPECT_EQ(Gather<float>(*table, ids, Dtype::kF32), want);
  EXPECT_TRUE(Gather<float>(*table, {}, Dtype::kF32).empty());
}

TEST(GatherTest, OwnDtypeKeepsEveryBit) {
  const std::vector<uint16_t> bits = {0x7E01, 0x7C01, 0xFC00, 0x8000, 0x0001, 0x7BFF};
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    const auto table = TableFromMemory("t", dtype, 3, 2, bits.data());
    EXPECT_EQ(Gather<uint16_t>(*table, {0, 1, 2}, dtype), bits);
  }
}

TEST(GatherTest, OtherDtypesAreWidenedExactlyAndRoundedToNearestEven) {
  const std::vector<uint16_t> halves = {0x3555, 0x0001, 0x7BFF, 0xC000};
  const auto table = TableFromMemory("t", Dtype::kF16, 2, 2, halves.data());
  EXPECT_EQ(Gather<float>(*table, {1, 0}, Dtype::kF32),
            (std::vector<float>{65504, -2, 0.333251953125f, std::ldexp(1.f, -24)}));
  // 0x3555 = 0.333251953125 lies between the bfloat16 0x3EAA (0.33203125) and 0x3EAB (0.333984375); 65504 rounds up.
  EXPECT_EQ(Gather<uint16_t>(*table, {0, 1}, Dtype::kBF16), (std::vector<uint16_t>{0x3EAB, 0x3380, 0x4780, 0xC000}));
}

TEST(GatherTest, FirstValueThatDoesNotFitIsNamed) {
  const std::vector<float> rows = {1, INFINITY, 65519.99f, 2, 65520, -1e9f};
  const auto table = TableFromMemory("t", Dtype::kF32, 3, 2, rows.data());
  std::vector<std::byte> bytes(4 * 2 * 2);
  const std::vector<int64_t> ids = {0, 1, 2, 2};
  const std::optional<ValueOverflow> overflow = GatherRows(*table, ids, Dtype::kF16, bytes.data());
  ASSERT_TRUE(overflow.has_value());
  EXPECT_EQ(overflow->position, 2u);  // infinity stays infinity; 65519.99 rounds down to 65504
  EXPECT_EQ(overflow->column, 0);
  EXPECT_EQ(overflow->value, 65520.f);
}

TEST(GatherTest, LargestFiniteValuesFit) {
  EXPECT_EQ(LargestFinite(Dtype::kF32), FLT_MAX);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    const auto largest = static_cast<float>(LargestFinite(dtype));
    const std::vector<float> rows = {largest, dtype == Dtype::kF16 ? 65520.f : FLT_MAX};
    const auto table = TableFromMemory("t", Dtype::kF32, 2, 1, rows.data());
    uint16_t bits = 0;
    const std::vector<int64_t> first = {0}, second = {1};
    EXPECT_FALSE(GatherRows(*table, first, dtype, reinterpret_cast<std::byte*>(&bits)).has_value());
    EXPECT_EQ(bits, dtype == Dtype::kF16 ? 0x7BFF : 0x7F7F);
    EXPECT_TRUE(GatherRows(*table, second, dtype, reinterpret_cast<std::byte*>(&bits)).has_value());
  }
}

}  // namespace
}  // namespace embedding
