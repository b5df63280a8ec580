#include "server/table/npy.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The bytes before the array.
std::string Head(const std::string& header, char major = 1) {
  std::string head = std::string("\x93NUMPY") + major + '\0';
  if (major == 1) {
    head += Bytes<uint16_t>({static_cast<uint16_t>(header.size())});
  } else {
    head += Bytes<uint32_t>({static_cast<uint32_t>(header.size())});
  }
  return head + header;
}

std::string Dict(const std::string& descr, const std::string& fortran_order, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran_order + ", 'shape': " + shape + ", }\n";
}

absl::StatusOr<RowLayout> Parse(const std::string& head, uint64_t data_bytes) {
  return ParseNpy(head, head.size() + data_bytes, {});
}

TEST(NpyTest, ReadsEveryVersionTypeAndByteOrder) {
  const struct {
    const char* descr;
    Dtype dtype;
    bool big_endian;
  } kCases[] = {{"'<f4'", Dtype::kF32, false}, {"'<f2'", Dtype::kF16, false}, {"'<f8'", Dtype::kF64, false},
                {"'>f4'", Dtype::kF32, true},  {"'>f2'", Dtype::kF16, true},  {"\">f8\"", Dtype::kF64, true}};
  for (const auto& c : kCases) {
    for (const char major : {1, 2, 3}) {
      const std::string head = Head(Dict(c.descr, "False", "(2, 3)"), major);
      const absl::StatusOr<RowLayout> layout = Parse(head, 6 * DtypeSize(c.dtype));
      ASSERT_THAT(layout, Succeeds()) << c.descr;
      EXPECT_EQ(layout->dtype, c.dtype) << c.descr;
      EXPECT_EQ(layout->big_endian, c.big_endian) << c.descr;
      EXPECT_EQ(layout->num_rows, 2);
      EXPECT_EQ(layout->dim, 3);
      EXPECT_EQ(layout->offset, head.size());
    }
  }
}

TEST(NpyTest, KeysMayComeInAnyOrderWithAnyBlanks) {
  for (const char* header : {"{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
                             " {\t'fortran_order' : False ,\n 'shape' : ( 2 , 3 , ) , 'descr' : \"<f4\" , } \n",
                             "{'descr':'<f4','fortran_order':False,'shape':(2L, 3L)}"}) {
    EXPECT_THAT(Parse(Head(header), 24), Succeeds()) << header;
  }
}

struct NpyCase {
  const char* name;
  std::string header;
  const char* message;
};

std::vector<NpyCase> RefusedCases() {
  return {
      {"Rank0", Dict("'<f4'", "False", "()"), "rank 0, shape (), a table has rank 2"},
      {"Rank1", Dict("'<f4'", "False", "(6,)"), "rank 1, shape (6,), a table has rank 2"},
      {"Rank3", Dict("'<f4'", "False", "(1, 2, 3)"), "rank 3, shape (1, 2, 3)"},
      {"DigitGrouping", Dict("'<f4'", "False", "(2,621, 401)"), "rank 3"},
      {"NumberInParentheses", Dict("'<f4'", "False", "(6)"), "is no tuple"},
      {"ShapeIsList", Dict("'<f4'", "False", "[2, 3]"), "wanted a tuple"},
      {"ShapeWithFraction", Dict("'<f4'", "False", "(2.5, 3)"), "wanted \",\" or \")\""},
      {"ShapeNegative", Dict("'<f4'", "False", "(-2, 3)"), "wanted a number"},
      {"ShapeLeadingZero", Dict("'<f4'", "False", "(02, 3)"), "leading zeros"},
      {"ShapeHex", Dict("'<f4'", "False", "(0x2, 3)"), "wanted \",\""},
      {"ShapeAbove64Bits", Dict("'<f4'", "False", "(18446744073709551616, 3)"), "below 2^64"},
      {"ShapeDoubleComma", Dict("'<f4'", "False", "(2,, 3)"), "wanted a number"},
      {"ShapeWraps", Dict("'<f4'", "False", "(4294967296, 4294967296)"), "passes 2^64 bytes"},
      {"ShapeOf33Dimensions",
       Dict(
           "'<f4'", "False",
           "(1" +
               [] {
                 std::string s;
                 for (int i = 0; i < 32; ++i) s += ",1";
                 return s;
               }() +
               ")"),
       "more than 32 dimensions"},
      {"NoRows", Dict("'<f4'", "False", "(0, 6)"), "table has 0 rows of width 6"},
      {"NoColumns", Dict("'<f4'", "False", "(6, 0)"), "table has 6 rows of width 0"},
      {"Fortran", Dict("'<f4'", "True", "(2, 3)"), "Fortran order"},
      {"FortranIsNumber", Dict("'<f4'", "0", "(2, 3)"), "wanted True or False"},
      {"Integer", Dict("'<i4'", "False", "(2, 3)"), "npy dtype is \"<i4\", served are"},
      {"NativeOrder", Dict("'=f4'", "False", "(2, 3)"), "\"=f4\""},
      {"NoOrder", Dict("'f4'", "False", "(2, 3)"), "\"f4\""},
      {"OrderOfBytes", Dict("'|f4'", "False", "(2, 3)"), "\"|f4\""},
      {"EmptyDtype", Dict("''", "False", "(2, 3)"), "npy dtype is \"\""},
      {"Bfloat16AsVoid", Dict("'<V2'", "False", "(2, 6)"), "as bfloat16 is saved: use safetensors"},
      {"Objects", Dict("'|O'", "False", "(2, 3)"), "Python objects (a pickle), which are never executed"},
      {"Structured", Dict("[('a', '<f4')]", "False", "(2, 3)"), "structured dtype"},
      {"DtypeIsNumber", Dict("4", "False", "(2, 3)"), "wanted a string"},
      {"DtypeWithEscape", Dict("'\\x3cf4'", "False", "(2, 3)"), "without escapes"},
      {"NoDescr", "{'fortran_order': False, 'shape': (2, 3)}", "lacks the key \"descr\""},
      {"NoOrderKey", "{'descr': '<f4', 'shape': (2, 3)}", "lacks the key \"fortran_order\""},
      {"NoShape", "{'descr': '<f4', 'fortran_order': False}", "lacks the key \"shape\""},
      {"EmptyDict", "{}", "lacks the key \"descr\""},
      {"KeyTwice", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
       "names \"descr\" twice"},
      {"UnknownKey", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", "the key \"x\", allowed are"},
      {"NotADict", "('<f4', False, (2, 3))", "wanted \"{\""},
      {"Nothing", "", "wanted \"{\""},
      {"NotClosed", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "wanted \",\" or \"}\""},
      {"StringNotClosed", "{'descr: '", "wanted \":\""},
      {"CommaFirst", "{, 'descr': '<f4'}", "wanted a string"},
      {"TextBehind", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + 1", "wanted its end"},
      {"NulBehind", Dict("'<f4'", "False", "(2, 3)") + std::string(1, '\0'), "wanted its end"},
      {"Expression", "{'descr': '<f4', 'fortran_order': False, 'shape': (1+1, 3)}", "wanted \",\" or \")\""},
  };
}

class RefusedNpyTest : public ::testing::TestWithParam<NpyCase> {};

TEST_P(RefusedNpyTest, NamesTheReason) {
  EXPECT_THAT(Parse(Head(GetParam().header), 24),
              Fails(kDataLoss, AllOf(HasSubstr(GetParam().message), Not(HasSubstr("\n")))));
}

INSTANTIATE_TEST_SUITE_P(All, RefusedNpyTest, ::testing::ValuesIn(RefusedCases()),
                         [](const auto& i) { return i.param.name; });

TEST(NpyTest, TheArrayMustFillTheFile) {
  const std::string head = Head(Dict("'<f4'", "False", "(2, 3)"));
  EXPECT_THAT(Parse(head, 23),
              Fails(kDataLoss, "file ends at byte " + std::to_string(head.size() + 23) +
                                   ", the npy array of shape (2, 3) needs " + std::to_string(head.size() + 24)));
  EXPECT_THAT(Parse(head, 25), Fails(kDataLoss, HasSubstr("1 bytes after the npy array")));
}

TEST(NpyTest, AHeaderLengthIsCheckedBeforeItIsUsed) {
  std::string head = std::string("\x93NUMPY\2\0", 8) + Bytes<uint32_t>({UINT32_MAX});
  EXPECT_THAT(Parse(head, 0), Fails(kDataLoss, "npy header claims 4294967295 bytes, the limit is 65536"));
  head = std::string("\x93NUMPY\1\0", 8) + Bytes<uint16_t>({100});
  EXPECT_THAT(Parse(head, 0), Fails(kDataLoss, "file ends at byte 10, an npy header needs 110"));
}

TEST(NpyTest, EveryCutOfAFileIsRefusedWithItsLength) {
  const std::string file = Head(Dict("'<f4'", "False", "(2, 3)")) + std::string(24, '\1');
  ASSERT_THAT(ParseNpy(file, file.size(), {}), Succeeds());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(ParseNpy(file.substr(0, size), size, {}),
                Fails(kDataLoss, HasSubstr("file ends at byte " + std::to_string(size))));
  }
}

TEST(NpyTest, OtherVersionsAndMagicsAreRefused) {
  EXPECT_THAT(Parse(Head(Dict("'<f4'", "False", "(2, 3)"), 4), 24),
              Fails(kDataLoss, "npy version is 4.0, read are 1.0, 2.0 and 3.0"));
  EXPECT_THAT(Parse("\x93NUMPZ\1\0", 24), Fails(kDataLoss, HasSubstr("wanted the npy magic")));
  EXPECT_THAT(Parse(std::string(100, '\0'), 0), Fails(kDataLoss, HasSubstr("wanted the npy magic")));
}

}  // namespace
}  // namespace embedding
