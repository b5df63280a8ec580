// Which value the load tester takes each code of an 8-bit table for.
#include "client/loadtest/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/testing/byte_codes.h"

namespace embedding::loadtest {
namespace {

// 256 rows of width 1, one for each code, and one of the code that means 1: a dot product with it is the code's value.
TEST(ReferenceTableTest, ReadsEvery8BitCodeAsNumpyAndMlDtypesDo) {
  const struct {
    v1::Dtype dtype;
    unsigned char one;
  } kCases[] = {{v1::DTYPE_I8, 1}, {v1::DTYPE_U8, 1}, {v1::DTYPE_F8_E4M3, 0x38}, {v1::DTYPE_F8_E5M2, 0x3c}};
  for (size_t i = 0; i < std::size(kCases); ++i) {
    v1::TableInfo info;
    info.set_rows(257);
    info.set_dim(1);
    info.set_dtype(kCases[i].dtype);
    ReferenceTable table(info);
    ASSERT_EQ(table.row_bytes(), 1);
    for (int id = 0; id < 257; ++id) {
      v1::LookupResponse answer;
      answer.mutable_table()->set_fingerprint("f");
      answer.mutable_embeddings()->set_dtype(kCases[i].dtype);
      answer.mutable_embeddings()->add_shape(1);
      answer.mutable_embeddings()->add_shape(1);
      answer.mutable_embeddings()->set_data(std::string(1, static_cast<char>(id < 256 ? id : kCases[i].one)));
      std::string error;
      ASSERT_TRUE(table.SetRow(id, answer, &error)) << error;
    }
    const embedding::testing::ByteCodes& codes = embedding::testing::kByteCodes[i];
    for (int id = 0; id < 256; ++id) {
      const auto want = std::bit_cast<float>(codes.bits[id]);
      // A sum that begins with +0 loses the sign of -0; infinity is cut to the largest float, NaN stays.
      const float score = table.Score(v1::METRIC_DOT, id, 256);
      if (std::isfinite(want)) {
        EXPECT_EQ(score, want) << codes.dtype << " " << id;
      } else {
        EXPECT_FALSE(std::abs(score) < 1e30f) << codes.dtype << " " << id;
      }
    }
  }
}

}  // namespace
}  // namespace embedding::loadtest
