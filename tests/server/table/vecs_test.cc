#include "server/table/vecs.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<RowLayout> Parse(const std::string& head, uint64_t file_size) {
  return ParseVecs(TableFormat::kFbin, head, file_size, {});
}

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
  EXPECT_THAT(Parse(fvecs, fvecs.size()),
              Fails(kDataLoss, HasSubstr("file is an .fvecs file (each row begins with its width), not .fbin: ")));
}

TEST(FbinTest, RefusesTablesOverTheLimits) {
  const TableLimits limits = {.max_rows = 1, .max_dim = 2};
  EXPECT_THAT(
      ParseVecs(TableFormat::kFbin, Bytes<uint32_t>({2, 2}), 24, limits),
      Fails(kDataLoss, "table has 2 rows of width 2, allowed are 1..1 rows (--max-rows) of width 1..2 (--max-dim)"));
  EXPECT_THAT(ParseVecs(TableFormat::kFbin, Bytes<uint32_t>({1, 3}), 20, limits),
              Fails(kDataLoss, HasSubstr("1 rows of width 3")));
  EXPECT_THAT(ParseVecs(TableFormat::kFbin, Bytes<uint32_t>({1, 2}), 16, limits), Succeeds());
}

// A file of two rows of width 3 in each format.
struct Sample {
  TableFormat format;
  Dtype dtype;
  std::string bytes;
  uint64_t offset;
  bool has_row_widths;
  const char* looks;  // what another format says of it
};

std::vector<Sample> Samples() {
  const std::string header = Bytes<uint32_t>({2, 3});
  const std::string floats = Bytes<float>({1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f});
  const std::string width = Bytes<int32_t>({3});
  return {
      {TableFormat::kFbin, Dtype::kF32, header + floats, 8, false, "file is an .fbin file, not ."},
      {TableFormat::kF16bin, Dtype::kF16, header + floats.substr(0, 12), 8, false, "file is an .f16bin file, not ."},
      {TableFormat::kU8bin, Dtype::kU8, header + "abcdef", 8, false, "file is a .u8bin or .i8bin file, not ."},
      {TableFormat::kI8bin, Dtype::kI8, header + "abcdef", 8, false, "file is a .u8bin or .i8bin file, not ."},
      {TableFormat::kFvecs, Dtype::kF32, width + floats.substr(0, 12) + width + floats.substr(12), 0, true,
       "file is an .fvecs file (each row begins with its width), not ."},
      {TableFormat::kBvecs, Dtype::kU8, width + "abc" + width + "def", 0, true,
       "file is a .bvecs file (each row begins with its width), not ."},
  };
}

TEST(VecsTest, ReadsEachFormat) {
  for (const Sample& sample : Samples()) {
    SCOPED_TRACE(std::string(TableFormatName(sample.format)));
    EXPECT_TRUE(IsVecsFormat(sample.format));
    EXPECT_TRUE(FitsVecsFormat(sample.format, sample.bytes, sample.bytes.size()));
    const absl::StatusOr<RowLayout> layout = ParseVecs(sample.format, sample.bytes, sample.bytes.size(), {});
    ASSERT_THAT(layout, Succeeds());
    EXPECT_EQ(layout->dtype, sample.dtype);
    EXPECT_EQ(layout->num_rows, 2);
    EXPECT_EQ(layout->dim, 3);
    EXPECT_EQ(layout->offset, sample.offset);
    EXPECT_EQ(layout->has_row_widths, sample.has_row_widths);
    EXPECT_FALSE(layout->big_endian);
  }
  EXPECT_FALSE(IsVecsFormat(TableFormat::kNpy));
  EXPECT_FALSE(IsVecsFormat(TableFormat::kAuto));
}

TEST(VecsTest, EveryPairingOfContentAndFormatIsRefusedByWhatTheFileIs) {
  const auto is_of_bytes = [](TableFormat format) {
    return format == TableFormat::kU8bin || format == TableFormat::kI8bin;
  };
  for (const Sample& sample : Samples()) {
    for (const Sample& wanted : Samples()) {
      if (sample.format == wanted.format || (is_of_bytes(sample.format) && is_of_bytes(wanted.format))) continue;
      EXPECT_THAT(ParseVecs(wanted.format, sample.bytes, sample.bytes.size(), {}),
                  Fails(kDataLoss, HasSubstr(sample.looks + std::string(TableFormatName(wanted.format)) + ": ")))
          << TableFormatName(sample.format) << " as " << TableFormatName(wanted.format);
    }
  }
}

TEST(VecsTest, FilesCutOrExtendedAreRefused) {
  for (const Sample& sample : Samples()) {
    for (size_t size = 0; size < sample.bytes.size(); ++size) {
      // One whole row of .fvecs or .bvecs is a table.
      if (sample.has_row_widths && size == sample.bytes.size() / 2) continue;
      EXPECT_THAT(ParseVecs(sample.format, sample.bytes.substr(0, size), size, {}),
                  Fails(kDataLoss, HasSubstr("file ends at byte " + std::to_string(size))));
    }
    EXPECT_THAT(ParseVecs(sample.format, sample.bytes, sample.bytes.size() + 1, {}), Fails(kDataLoss, HasSubstr("")));
  }
}

TEST(VecsTest, LimitsHoldAtTheirValueAndNotAbove) {
  for (const Sample& sample : Samples()) {
    const auto parse = [&](int64_t max_rows, int64_t max_dim) {
      return ParseVecs(sample.format, sample.bytes, sample.bytes.size(), {.max_rows = max_rows, .max_dim = max_dim});
    };
    EXPECT_THAT(parse(2, 3), Succeeds());
    EXPECT_THAT(parse(1, 3),
                Fails(kDataLoss, HasSubstr("2 rows of width 3, allowed are 1..1 rows (--max-rows) of width 1..3")));
    EXPECT_THAT(parse(2, 2), Fails(kDataLoss, HasSubstr("of width 1..2 (--max-dim)")));
  }
}

TEST(FvecsTest, RefusesWidthsBelowOne) {
  for (const int32_t width : {0, -1, INT32_MIN}) {
    EXPECT_THAT(
        ParseVecs(TableFormat::kFvecs, Bytes<int32_t>({width, 7}), 8, {}),
        Fails(kDataLoss, "row 0 of .fvecs begins with the width " + std::to_string(width) + ", allowed are 1..65536"));
  }
}

TEST(FvecsTest, RefusesASizeThatRowsDoNotFill) {
  EXPECT_THAT(ParseVecs(TableFormat::kFvecs, Bytes<int32_t>({2, 7, 7, 2, 8, 8}), 25, {}),
              Fails(kDataLoss,
                    "file ends at byte 25, no multiple of the 12 bytes of a row of .fvecs whose width is 2, as row 0 "
                    "says: 1 bytes are left over"));
}

// The size alone is that of three rows of 4.
TEST(FvecsTest, RowsOf4And3And5AreNoTable) {
  const std::string bytes = Bytes<int32_t>({4, 0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 0, 0});
  ASSERT_EQ(bytes.size(), 3u * (4 + 4 * 4));
  EXPECT_THAT(ParseVecs(TableFormat::kFvecs, bytes, bytes.size(), {}),
              Fails(kDataLoss, "row 1 begins with the width 3, row 0 with 4: all rows of a table have one width"));
  // What `head` does not show is left to LoadRows.
  EXPECT_THAT(ParseVecs(TableFormat::kFvecs, bytes.substr(0, 23), bytes.size(), {}), Succeeds());
}

TEST(FvecsTest, OneRowIsATableWhereTheFormatIsSaidButNotRecognised) {
  const std::string one = Bytes<int32_t>({2, 7, 7});
  EXPECT_THAT(ParseVecs(TableFormat::kFvecs, one, one.size(), {}), Succeeds());
  EXPECT_FALSE(LooksLikeVecs(TableFormat::kFvecs, one, one.size()));
  EXPECT_TRUE(LooksLikeVecs(TableFormat::kFvecs, one + one, 2 * one.size()));
  EXPECT_FALSE(LooksLikeVecs(TableFormat::kBvecs, one + one, 2 * one.size()));
}

}  // namespace
}  // namespace embedding
