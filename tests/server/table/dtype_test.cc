#include "server/table/dtype.h"

#include <gtest/gtest.h>

namespace embedding {
namespace {

TEST(DtypeTest, NamesAndSizesAreThoseOfSafetensors) {
  const struct {
    Dtype dtype;
    const char* name;
    size_t size;
  } kCases[] = {{Dtype::kF32, "F32", 4}, {Dtype::kF16, "F16", 2}, {Dtype::kBF16, "BF16", 2}, {Dtype::kF64, "F64", 8}};
  for (const auto& c : kCases) {
    EXPECT_EQ(DtypeName(c.dtype), c.name);
    EXPECT_EQ(DtypeSize(c.dtype), c.size) << c.name;
    EXPECT_EQ(DtypeFromName(c.name), c.dtype) << c.name;
  }
}

TEST(DtypeTest, KnowsNoOtherName) {
  for (const char* name : {"", "f32", "F3", "F32 ", "I8", "F8_E4M3", "float32"}) {
    EXPECT_EQ(DtypeFromName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace embedding
