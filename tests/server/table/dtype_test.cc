#include "server/table/dtype.h"

#include <gtest/gtest.h>

namespace embedding {
namespace {

TEST(DtypeTest, NamesAndSizesAreThoseOfSafetensors) {
  const struct {
    Dtype dtype;
    const char* name;
    size_t size;
  } kCases[] = {{Dtype::kF32, "F32", 4},        {Dtype::kF16, "F16", 2},       {Dtype::kBF16, "BF16", 2},
                {Dtype::kF64, "F64", 8},        {Dtype::kI8, "I8", 1},         {Dtype::kU8, "U8", 1},
                {Dtype::kF8E4M3, "F8_E4M3", 1}, {Dtype::kF8E5M2, "F8_E5M2", 1}};
  for (const auto& c : kCases) {
    EXPECT_EQ(DtypeName(c.dtype), c.name);
    EXPECT_EQ(DtypeSize(c.dtype), c.size) << c.name;
    EXPECT_EQ(DtypeFromName(c.name), c.dtype) << c.name;
  }
}

TEST(DtypeTest, KnowsNoOtherName) {
  for (const char* name : {"", "f32", "F3", "F32 ", "i8", "I16", "F8", "F8_E8M0", "float32"}) {
    EXPECT_EQ(DtypeFromName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace embedding
