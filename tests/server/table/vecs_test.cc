#include "server/table/vecs.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<RowLayout> Parse(const std::string& head, uint64_t file_size) { return ParseFbin(head, file_size, {}); }

TEST(FbinTest, ReadsTheHeader) {
  const absl::StatusOr<RowLayout> layout = Parse(Bytes<uint32_t>({2, 3}), 8 + 24);
  ASSERT_THAT(layout, Succeeds());
  EXPECT_EQ(layout->dtype, Dtype::kF32);
  EXPECT_EQ(layout->num_rows, 2);
  EXPECT_EQ(layout->dim, 3);
  EXPECT_EQ(layout->offset, 8u);
}

TEST(FbinTest, RefusesAnotherSizeThanTheHeaderPromises) {
  for (const uint64_t size : {uint64_t{8}, uint64_t{31}, uint64_t{33}, uint64_t{56}}) {
    EXPECT_THAT(Parse(Bytes<uint32_t>({2, 3}), size),
                Fails(kDataLoss, "file ends at byte " + std::to_string(size) +
                                     ", its .fbin header promises 2 rows of width 3, which end at byte 32"));
  }
}

TEST(FbinTest, RefusesAFileWithoutHeader) {
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_THAT(Parse(std::string(size, '\1'), size),
                Fails(kDataLoss, "file ends at byte " + std::to_string(size) + ", an .fbin header needs 8"));
  }
}

TEST(FbinTest, RefusesEmptyTables) {
  EXPECT_THAT(Parse(Bytes<uint32_t>({0, 3}), 8),
              Fails(kDataLoss, HasSubstr("table has 0 rows of width 3, allowed are 1..")));
  EXPECT_THAT(Parse(Bytes<uint32_t>({3, 0}), 8),
              Fails(kDataLoss, HasSubstr("table has 3 rows of width 0, allowed are 1..")));
}

TEST(FbinTest, SizesThatWrapIn32BitsAreRefused) {
  // 2^30 * 4 * 4 = 2^34 = 0 in 32 bits.
  EXPECT_THAT(Parse(Bytes<uint32_t>({1u << 30, 4}), 8), Fails(kDataLoss, HasSubstr("end at byte 17179869192")));
  // (2^32 - 1)^2 * 4 passes 2^64.
  EXPECT_THAT(Parse(Bytes<uint32_t>({UINT32_MAX, UINT32_MAX}), 8),
              Fails(kDataLoss, HasSubstr("more than any file holds")));
}

TEST(FbinTest, SaysThatAFileIsReallyFvecs) {
  const std::string fvecs = Bytes<int32_t>({2, 7, 7, 2, 8, 8});
  EXPECT_THAT(Parse(fvecs, fvecs.size()), Fails(kDataLoss, AllOf(HasSubstr(".fvecs file"), HasSubstr("here 2"))));
}

TEST(FbinTest, RefusesTablesOverTheLimits) {
  const TableLimits limits = {.max_rows = 1, .max_dim = 2};
  EXPECT_THAT(
      ParseFbin(Bytes<uint32_t>({2, 2}), 24, limits),
      Fails(kDataLoss, "table has 2 rows of width 2, allowed are 1..1 rows (--max-rows) of width 1..2 (--max-dim)"));
  EXPECT_THAT(ParseFbin(Bytes<uint32_t>({1, 3}), 20, limits), Fails(kDataLoss, HasSubstr("1 rows of width 3")));
  EXPECT_THAT(ParseFbin(Bytes<uint32_t>({1, 2}), 16, limits), Succeeds());
}

}  // namespace
}  // namespace embedding
