#include "client/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/testing/byte_codes.h"

namespace embedding::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Words(std::initializer_list<uint16_t> words) {
  std::string bytes;
  for (const uint16_t word : words) {
    bytes.push_back(static_cast<char>(word & 0xff));
    bytes.push_back(static_cast<char>(word >> 8));
  }
  return bytes;
}

// Expected values: IEEE 754-2019 table 3.5 (binary16) by hand.
TEST(TensorTest, WidensBinary16Exactly) {
  const Tensor tensor{Dtype::kF16, {8}, Words({0x3c00, 0xc000, 0x3555, 0x7bff, 0x0001, 0x83ff, 0x0000, 0x8000})};
  const std::vector<float> floats = tensor.ToFloats();
  EXPECT_THAT(floats, ElementsAre(1.0f, -2.0f, 1365.0f / 4096.0f, 65504.0f, 0x1p-24f, -1023 * 0x1p-24f, 0.0f, -0.0f));
  EXPECT_TRUE(std::signbit(floats[7]));
}

TEST(TensorTest, WidensInfinityAndNanOfBinary16) {
  const std::vector<float> floats = Tensor{Dtype::kF16, {3}, Words({0x7c00, 0xfc00, 0x7e00})}.ToFloats();
  EXPECT_EQ(floats[0], INFINITY);
  EXPECT_EQ(floats[1], -INFINITY);
  EXPECT_TRUE(std::isnan(floats[2]));
}

TEST(TensorTest, WidensBfloat16AsTheUpperHalf) {
  EXPECT_THAT((Tensor{Dtype::kBF16, {3}, Words({0x3f80, 0xc040, 0x0001})}.ToFloats()),
              ElementsAre(1.0f, -3.0f, std::bit_cast<float>(0x00010000u)));
}

TEST(TensorTest, KeepsTheBitsOfFloats) {
  EXPECT_THAT((Tensor{Dtype::kF32, {2}, Words({0x999a, 0x3fd9, 0x0001, 0x0000})}.ToFloats()),
              ElementsAre(1.7f, std::bit_cast<float>(1u)));
}

TEST(TensorTest, WidensEvery8BitCodeAsNumpyAndMlDtypesDo) {
  std::string bytes;
  for (int code = 0; code < 256; ++code) bytes.push_back(static_cast<char>(code));
  for (const embedding::testing::ByteCodes& codes : embedding::testing::kByteCodes) {
    const Dtype dtype = static_cast<Dtype>(5 + (&codes - embedding::testing::kByteCodes));
    EXPECT_STREQ(DtypeName(dtype), codes.dtype);
    EXPECT_EQ(DtypeSize(dtype), 1u);
    const std::vector<float> floats = Tensor{dtype, {16, 16}, bytes}.ToFloats();
    ASSERT_EQ(floats.size(), 256u);
    for (size_t code = 0; code < 256; ++code) {
      EXPECT_TRUE(embedding::testing::IsCode(floats[code], codes, code)) << codes.dtype << " " << code;
    }
  }
}

TEST(TensorTest, GivesNothingForTypesThatNoAnswerHolds) {
  EXPECT_THAT((Tensor{Dtype::kUnspecified, {1}, "1234"}.ToFloats()), IsEmpty());
  EXPECT_THAT((Tensor{Dtype::kF64, {1}, "12345678"}.ToFloats()), IsEmpty());
}

}  // namespace
}  // namespace embedding::client
