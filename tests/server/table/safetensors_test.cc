#include "server/table/safetensors.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Tensors = std::vector<SafetensorsTensor>;

// The header of a file with this many bytes of data.
absl::StatusOr<Tensors> Parse(const std::string& header, uint64_t data_bytes) {
  return ParseSafetensorsHeader(header, kSafetensorsLengthBytes + header.size() + data_bytes);
}

// One F32 tensor "e" of shape [2, 3] over 24 bytes, with fields of the test's own.
std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"e":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string header = R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[6,30]},"__metadata__":{"k":"v"},)"
                             R"("a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})";
  const absl::StatusOr<Tensors> tensors = Parse(header, 30);
  ASSERT_THAT(tensors, Succeeds());
  ASSERT_EQ(tensors->size(), 2u);
  const uint64_t data = 8 + header.size();
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].dtype, "BF16");
  EXPECT_EQ((*tensors)[0].begin, data);
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_EQ((*tensors)[1].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ((*tensors)[1].begin, data + 6);
  EXPECT_EQ((*tensors)[1].end, data + 30);
}

struct HeaderCase {
  const char* name;
  std::string header;
  uint64_t data_bytes;
  const char* message;  // empty: accepted
};

std::vector<HeaderCase> AcceptedHeaders() {
  const std::string good = Entry(R"("F32")", "[2,3]", "[0,24]");
  return {
      {"Plain", good, 24, ""},
      {"SpacesBehind", good + "     ", 24, ""},
      {"JsonWhiteSpaceAround", "\n\t " + good + "\r\n\t ", 24, ""},
      {"OnlyMetadata", R"({"__metadata__":{"a":"b"}})", 0, ""},
      {"NoTensors", "{}", 0, ""},
      {"EmptyMetadata", R"({"__metadata__":{}})", 0, ""},
      {"UnknownField", R"({"e":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"note":{"x":[-1.5,null]}}})", 4, ""},
      {"Scalar", Entry(R"("F64")", "[]", "[0,8]"), 8, ""},
      {"EmptyTensor", Entry(R"("F32")", "[0,5]", "[0,0]"), 0, ""},
      {"SubByteInWholeBytes", Entry(R"("F4")", "[2,3]", "[0,3]"), 3, ""},
      {"DtypeOfTheFuture", Entry(R"("F2_E1M0")", "[64]", "[0,16]"), 16, ""},
      {"EmptyTensorBetweenOthers",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},)"
       R"("c":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, ""},
  };
}

std::vector<HeaderCase> RefusedHeaders() {
  const std::string good = Entry(R"("F32")", "[2,3]", "[0,24]");
  const std::string f32 = R"("F32")";
  return {
      // The header as JSON.
      {"Nothing", "", 0, "wanted a JSON object"},
      {"OnlyBlanks", "   ", 0, "wanted a JSON object"},
      {"Array", "[1]", 0, "wanted a JSON object"},
      {"ByteOrderMark", "\xEF\xBB\xBF" + good, 24, "begins with"},
      {"TrailingNul", good + std::string(1, '\0'), 24, "no JSON"},
      {"TrailingObject", good + "{}", 24, "no JSON"},
      {"TrailingComma", R"({"__metadata__":{},})", 0, "no JSON"},
      {"Comment", "{/**/}", 0, "no JSON"},
      {"SingleQuotes", "{'a':1}", 0, "no JSON"},
      {"CutJson", good.substr(0, good.size() - 1), 24, "no JSON"},
      {"NaN", Entry(f32, "[NaN]", "[0,4]"), 4, "no JSON"},
      {"LeadingZero", Entry(f32, "[01]", "[0,4]"), 4, "no JSON"},
      {"RawControlCharacter", "{\"a\nb\":1}", 0, "no JSON"},
      {"OverlongUtf8", "{\"\xC0\x80\":1}", 0, "no JSON"},
      {"Utf8Surrogate", "{\"\xED\xA0\x80\":1}", 0, "no JSON"},
      {"EscapedLoneSurrogate", R"({"\ud800":1})", 0, "no JSON"},
      {"TooDeep", R"({"__metadata__":)" + std::string(40, '[') + std::string(40, ']') + "}", 0, "no JSON"},
      {"MillionBrackets", std::string("{\"a\":") + std::string(1000000, '['), 0, "no JSON"},
      {"DuplicateTensor", good.substr(0, good.size() - 1) + "," + good.substr(1), 24, "the key \"e\" twice"},
      {"DuplicateTensorByEscape",
       good.substr(0, good.size() - 1) + R"(,"\u0065":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24,
       "the key \"e\" twice"},
      {"DuplicateField", R"({"e":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "\"dtype\" twice"},
      {"DuplicateMetadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "\"__metadata__\" twice"},
      {"DuplicateMetadataKey", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "\"a\" twice"},
      {"DuplicateInUnknownField", R"({"e":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":[{"y":1,"y":2}]}})", 4,
       "\"y\" twice"},
      {"MetadataNotAnObject", R"({"__metadata__":["a"]})", 0, "__metadata__ [\\\"a\\\"], wanted an object"},
      {"MetadataNull", R"({"__metadata__":null})", 0, "__metadata__ null"},
      {"MetadataValueNotAString", R"({"__metadata__":{"a":1}})", 0, "\"a\" with the value 1, wanted a string"},
      // The tensor.
      {"TensorNotAnObject", R"({"e":[1]})", 0, "tensor \"e\" is [1], wanted an object"},
      {"NoDtype", R"({"e":{"shape":[1],"data_offsets":[0,4]}})", 4, "tensor \"e\" lacks the field dtype"},
      {"NoShape", R"({"e":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor \"e\" lacks the field shape"},
      {"NoOffsets", R"({"e":{"dtype":"F32","shape":[1],"offsets":[0,4]}})", 4,
       "tensor \"e\" lacks the field data_offsets"},
      {"DtypeNotAString", Entry("32", "[1]", "[0,4]"), 4, "dtype 32, wanted a string"},
      {"NameWithNul", R"({"a\u0000b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "\"a\\x00b\" has a control"},
      {"NameWithControlCharacter", R"({"\u00e9\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
       "control character"},
      {"ShapeNotAnArray", Entry(f32, "6", "[0,24]"), 24, "shape 6, wanted an array"},
      {"ShapeWithFraction", Entry(f32, "[2.5,3]", "[0,24]"), 24, "shape with the value 2.5, wanted an integer"},
      {"ShapeWithPoint", Entry(f32, "[2.0,3]", "[0,24]"), 24, "shape with the value 2"},
      {"ShapeWithExponent", Entry(f32, "[2e0,3]", "[0,24]"), 24, "shape with the value 2"},
      {"ShapeNegative", Entry(f32, "[-2,3]", "[0,24]"), 24, "shape with the value -2"},
      {"ShapeNegativeZero", Entry(f32, "[-0,3]", "[0,0]"), 0, "number -0"},
      {"ShapeAsText", Entry(f32, R"(["2",3])", "[0,24]"), 24, "shape with the value"},
      {"ShapeNull", Entry(f32, "[null]", "[0,24]"), 24, "shape with the value null"},
      {"ShapeTrue", Entry(f32, "[true]", "[0,4]"), 4, "shape with the value true"},
      {"ShapeAbove64Bits", Entry(f32, "[18446744073709551616]", "[0,24]"), 24, "no JSON"},
      {"ShapeProductWrapsToZero", Entry(f32, "[4294967296,4294967296]", "[0,0]"), 0, "passes 2^64 bits"},
      {"ShapeProductWrapsBehindAZero", Entry(f32, "[0,4294967296,4294967296]", "[0,0]"), 0, "passes 2^64 bits"},
      {"ShapeBitsWrap", Entry(f32, "[576460752303423488]", "[0,0]"), 0, "passes 2^64 bits"},
      {"RankNine", Entry(f32, "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "rank above 8"},
      {"HalfBytes", Entry(R"("F4")", "[3]", "[0,2]"), 2, "no whole number of bytes"},
      {"OffsetsOfOne", Entry(f32, "[2,3]", "[24]"), 24, "wanted two integers"},
      {"OffsetsOfThree", Entry(f32, "[2,3]", "[0,24,24]"), 24, "wanted two integers"},
      {"OffsetsNotAnArray", Entry(f32, "[2,3]", "{}"), 24, "data_offsets {}"},
      {"OffsetsNegative", Entry(f32, "[2,3]", "[-24,0]"), 24, "data_offsets with the value -24"},
      {"BeginPastEnd", Entry(f32, "[2,3]", "[24,0]"), 24, "data_offsets [24, 0]: begin is past end"},
      {"EndPastFile", Entry(f32, "[2,3]", "[0,24]"), 23, "tensor \"e\" needs"},
      {"EndWraps", Entry(f32, "[2,3]", "[18446744073709551591,18446744073709551615]"), 24, "past 2^64"},
      {"SizeTooSmallForShape", Entry(f32, "[2,3]", "[0,20]"), 20, "20 bytes, but dtype F32 and shape [2, 3] need 24"},
      {"SizeTooLargeForShape", Entry(f32, "[2,3]", "[0,28]"), 28, "28 bytes, but dtype F32 and shape [2, 3] need 24"},
      {"SizeOfEmptyTensor", Entry(f32, "[0,3]", "[0,24]"), 24, "need 0"},
      // The ranges together.
      {"HoleInFront", Entry(f32, "[1]", "[4,8]"), 8, "after a hole from byte"},
      {"HoleBetween",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "\"b\" begins at byte"},
      {"Overlap",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "inside the one before"},
      {"SameRangeTwice",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2, "inside the one before"},
      {"OverlapOfUnknownDtype",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"Q1","shape":[2],"data_offsets":[1,3]}})",
       3, "inside the one before"},
      {"UnknownDtypePastFile", Entry(R"("Q1")", "[2]", "[0,9]"), 8, "tensor \"e\" needs"},
      {"TrailingByte", good, 25, "1 bytes belong to nothing"},
      {"DataWithoutTensors", "{}", 5, "5 bytes belong to nothing"},
  };
}

class SafetensorsHeaderTest : public ::testing::TestWithParam<HeaderCase> {};

TEST_P(SafetensorsHeaderTest, IsAcceptedOrRefusedWithItsReason) {
  const HeaderCase& c = GetParam();
  const absl::StatusOr<Tensors> tensors = Parse(c.header, c.data_bytes);
  if (*c.message == '\0') {
    EXPECT_THAT(tensors, Succeeds());
  } else {
    EXPECT_THAT(tensors, Fails(kDataLoss, AllOf(HasSubstr(c.message), Not(HasSubstr("\n")))));
  }
}

INSTANTIATE_TEST_SUITE_P(Accepted, SafetensorsHeaderTest, ::testing::ValuesIn(AcceptedHeaders()),
                         [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Refused, SafetensorsHeaderTest, ::testing::ValuesIn(RefusedHeaders()),
                         [](const auto& i) { return i.param.name; });

TEST(SafetensorsTest, HeaderLengthIsCheckedBeforeItIsUsed) {
  EXPECT_THAT(SafetensorsHeaderBytes("", 0),
              Fails(kDataLoss, "file ends at byte 0, the length of a safetensors header needs 8"));
  EXPECT_THAT(SafetensorsHeaderBytes("1234567", 7), Fails(kDataLoss, HasSubstr("file ends at byte 7")));
  EXPECT_THAT(SafetensorsHeaderBytes(U64(3), 10),
              Fails(kDataLoss, "file ends at byte 10, its safetensors header needs 11"));
  EXPECT_THAT(SafetensorsHeaderBytes(U64(UINT64_MAX), 1000),
              Fails(kDataLoss, HasSubstr("claims 18446744073709551615 bytes, the limit is 100000000")));
  EXPECT_THAT(SafetensorsHeaderBytes(U64(100'000'001), uint64_t{1} << 40),
              Fails(kDataLoss, HasSubstr("the limit is 100000000")));
  const absl::StatusOr<uint64_t> largest = SafetensorsHeaderBytes(U64(100'000'000), uint64_t{1} << 40);
  ASSERT_THAT(largest, Succeeds());
  EXPECT_EQ(*largest, 100'000'000u);
}

Tensors Some(std::initializer_list<SafetensorsTensor> tensors) { return Tensors(tensors); }

TEST(SelectTableTest, TakesTheOnlyFloatMatrix) {
  const Tensors tensors =
      Some({{"ids", "I64", {4, 4}, 8, 136}, {"bias", "F32", {9}, 136, 172}, {"e", "F16", {5, 2}, 172, 192}});
  const absl::StatusOr<RowLayout> layout = SelectTable(tensors, "", {});
  ASSERT_THAT(layout, Succeeds());
  EXPECT_EQ(layout->dtype, Dtype::kF16);
  EXPECT_EQ(layout->num_rows, 5);
  EXPECT_EQ(layout->dim, 2);
  EXPECT_EQ(layout->offset, 172u);
}

TEST(SelectTableTest, SeveralCandidatesAreListedAtMostTen) {
  Tensors tensors;
  for (int i = 0; i < 12; ++i) tensors.push_back({"layer." + std::to_string(i), "F32", {4, 2}, 0, 32});
  EXPECT_THAT(
      SelectTable(tensors, "", {}),
      Fails(kDataLoss,
            AllOf(HasSubstr("12 2-D tensors that may be the table, name one with tensor=: \"layer.0\" F32 [4, 2], "),
                  HasSubstr("\"layer.9\""), Not(HasSubstr("\"layer.10\"")), HasSubstr("and 2 more"))));
  EXPECT_THAT(SelectTable(tensors, "layer.7", {}), Succeeds());
}

TEST(SelectTableTest, ANameThatDoesNotExistIsAnsweredByTheCandidates) {
  EXPECT_THAT(SelectTable(Some({{"a", "F32", {4, 2}, 0, 32}, {"b", "I8", {3}, 32, 35}}), "emb\n", {}),
              Fails(kDataLoss, "file has no tensor \"emb\\n\", it has \"a\" F32 [4, 2]"));
  EXPECT_THAT(SelectTable({}, "emb", {}), Fails(kDataLoss, "file has no tensor \"emb\": it has none at all"));
}

TEST(SelectTableTest, NoCandidateAtAllIsSaid) {
  EXPECT_THAT(SelectTable({}, "", {}), Fails(kDataLoss, "file has no tensors"));
  EXPECT_THAT(
      SelectTable(Some({{"b", "I64", {3, 2}, 0, 48}}), "", {}),
      Fails(kDataLoss,
            "file has no 2-D tensor of F32, F16, BF16, F64, I8, U8, F8_E4M3, F8_E5M2, it has \"b\" I64 [3, 2]"));
}

TEST(SelectTableTest, TheOnlyMatrixOfBytesIsTaken) {
  const struct {
    const char* name;
    Dtype dtype;
  } kCases[] = {{"I8", Dtype::kI8}, {"U8", Dtype::kU8}, {"F8_E4M3", Dtype::kF8E4M3}, {"F8_E5M2", Dtype::kF8E5M2}};
  for (const auto& c : kCases) {
    const auto layout = SelectTable(Some({{"scale", "F32", {5}, 0, 20}, {"e", c.name, {5, 3}, 20, 35}}), "", {});
    ASSERT_THAT(layout, Succeeds());
    EXPECT_EQ(layout->dtype, c.dtype);
    EXPECT_EQ(layout->dim, 3);
    EXPECT_EQ(layout->offset, 20u);
  }
}

TEST(SelectTableTest, AMatrixOfBytesIsNotChosenOverOneOfFloatsButByItsName) {
  const Tensors tensors = Some({{"e", "BF16", {5, 3}, 0, 30}, {"e.q", "I8", {5, 3}, 30, 45}});
  EXPECT_EQ(SelectTable(tensors, "", {})->dtype, Dtype::kBF16);
  EXPECT_EQ(SelectTable(tensors, "e.q", {})->dtype, Dtype::kI8);
  EXPECT_THAT(SelectTable(tensors, "q", {}),
              Fails(kDataLoss, "file has no tensor \"q\", it has \"e\" BF16 [5, 3], \"e.q\" I8 [5, 3]"));
  EXPECT_THAT(SelectTable(Some({{"a", "U8", {5, 3}, 0, 15}, {"b", "I8", {5, 3}, 15, 30}}), "", {}),
              Fails(kDataLoss, HasSubstr("2 2-D tensors that may be the table, name one with tensor=: \"a\" U8")));
}

TEST(SelectTableTest, ANamedTensorMustBeAMatrixOfAKnownDtype) {
  for (const char* dtype : {"I64", "BOOL", "C64", "F8_E8M0", "Q1"}) {
    EXPECT_THAT(SelectTable(Some({{"e", dtype, {3, 2}, 0, 48}}), "e", {}),
                Fails(kDataLoss, std::string("tensor \"e\" has dtype ") + dtype +
                                     ", served are F32, F16, BF16, F64, I8, U8, F8_E4M3, F8_E5M2"));
  }
  EXPECT_THAT(SelectTable(Some({{"e", "F32", {6}, 0, 24}}), "e", {}),
              Fails(kDataLoss, "tensor \"e\" has rank 1, shape [6], a table has rank 2"));
  EXPECT_THAT(SelectTable(Some({{"e", "F32", {1, 2, 3}, 0, 24}}), "e", {}), Fails(kDataLoss, HasSubstr("rank 3")));
}

TEST(SelectTableTest, EmptyAndOversizedTablesAreRefused) {
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{0, 5}, {5, 0}, {0, 0}}) {
    EXPECT_THAT(SelectTable(Some({{"e", "F32", shape, 8, 8}}), "", {}),
                Fails(kDataLoss, AllOf(HasSubstr("tensor \"e\""), HasSubstr("1..2147483647 rows (--max-rows)"),
                                       HasSubstr("width 1..65536 (--max-dim)"))));
  }
  const TableLimits limits = {.max_rows = 3, .max_dim = 2};
  EXPECT_THAT(SelectTable(Some({{"e", "F32", {3, 2}, 0, 24}}), "", limits), Succeeds());
  EXPECT_THAT(SelectTable(Some({{"e", "F32", {4, 2}, 0, 32}}), "", limits),
              Fails(kDataLoss, HasSubstr("4 rows of width 2")));
  EXPECT_THAT(SelectTable(Some({{"e", "F32", {3, 3}, 0, 36}}), "", limits),
              Fails(kDataLoss, HasSubstr("3 rows of width 3")));
}

}  // namespace
}  // namespace embedding
