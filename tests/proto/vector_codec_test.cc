#include "proto/vector_codec.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace embedding {
namespace {

TEST(VectorCodecTest, FloatsAreLittleEndian) {
  const std::vector<float> floats = {1.0f, -2.5f};
  std::string bytes(9, '\0');
  FloatsToBytes(floats.data(), floats.size(), bytes.data() + 1);  // at an odd address
  EXPECT_EQ(bytes.substr(1), std::string("\x00\x00\x80\x3f\x00\x00\x20\xc0", 8));
  std::vector<float> back(2);
  BytesToFloats(bytes.data() + 1, 2, back.data());
  EXPECT_EQ(back, floats);
}

TEST(VectorCodecTest, EveryBitPatternComesBack) {
  const std::vector<uint32_t> bits = {0x7FC00001, 0x7F800001, 0xFF800000, 0x80000000, 1};
  std::vector<float> floats(bits.size());
  BytesToFloats(bits.data(), bits.size(), floats.data());
  std::vector<uint32_t> back(bits.size());
  FloatsToBytes(floats.data(), floats.size(), back.data());
  EXPECT_EQ(back, bits);
  FloatsToBytes(nullptr, 0, nullptr);
  BytesToFloats(nullptr, 0, nullptr);
}

TEST(VectorCodecTest, SizesOfDtypes) {
  EXPECT_EQ(WireDtypeSize(v1::DTYPE_F32), 4u);
  EXPECT_EQ(WireDtypeSize(v1::DTYPE_F16), 2u);
  EXPECT_EQ(WireDtypeSize(v1::DTYPE_BF16), 2u);
  EXPECT_EQ(WireDtypeSize(v1::DTYPE_F64), 8u);
  EXPECT_EQ(WireDtypeSize(v1::DTYPE_I32), 4u);
  EXPECT_EQ(WireDtypeSize(v1::DTYPE_I64), 8u);
  for (const v1::Dtype of_bytes : {v1::DTYPE_I8, v1::DTYPE_U8, v1::DTYPE_F8_E4M3, v1::DTYPE_F8_E5M2}) {
    EXPECT_EQ(WireDtypeSize(of_bytes), 1u);
  }
  EXPECT_EQ(WireDtypeSize(v1::DTYPE_UNSPECIFIED), 0u);
  EXPECT_EQ(WireDtypeSize(static_cast<v1::Dtype>(77)), 0u);
}

}  // namespace
}  // namespace embedding
