#include "server/table/text_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::ElementsAre;

struct GoodCase {
  const char* name;
  const char* line;
  const char* key;
  float first, second;
};

class TextRowTest : public ::testing::TestWithParam<GoodCase> {};

TEST_P(TextRowTest, TheLastFieldsAreTheVectorAndTheRestIsTheKey) {
  float vector[2] = {};
  absl::string_view key;
  ASSERT_THAT(ParseTextRow(GetParam().line, 2, false, vector, &key), Succeeds());
  EXPECT_EQ(key, GetParam().key);
  EXPECT_THAT(vector, ElementsAre(GetParam().first, GetParam().second));
}

INSTANTIATE_TEST_SUITE_P(
    All, TextRowTest,
    ::testing::Values(GoodCase{"Plain", "the 0.5 -0.25", "the", 0.5f, -0.25f},
                      GoodCase{"BlankAtTheEnd", "the 0.5 -0.25 ", "the", 0.5f, -0.25f},
                      GoodCase{"CarriageReturn", "the 0.5 -0.25\r", "the", 0.5f, -0.25f},
                      GoodCase{"BlankAndCarriageReturn", "the 0.5 -0.25 \r", "the", 0.5f, -0.25f},
                      GoodCase{"Tabs", "the\t0.5\t-0.25", "the", 0.5f, -0.25f},
                      GoodCase{"SeveralBlanks", "the 0.5   -0.25", "the", 0.5f, -0.25f},
                      GoodCase{"Exponents", "the 5e-1 -2.5E-01", "the", 0.5f, -0.25f},
                      GoodCase{"Integers", "the 3 -7", "the", 3.0f, -7.0f},
                      GoodCase{"NumberAsKey", "1999 0.5 -0.25", "1999", 0.5f, -0.25f},
                      GoodCase{"SpacesInKey", ". . . 0.5 -0.25", ". . .", 0.5f, -0.25f},
                      GoodCase{"NameInKey", "at name@domain.com 0.5 -0.25", "at name@domain.com", 0.5f, -0.25f},
                      GoodCase{"NumberInKey", "no. 5 x 0.5 -0.25", "no. 5 x", 0.5f, -0.25f},
                      GoodCase{"KeyIsASpace", "  0.5 -0.25", " ", 0.5f, -0.25f},
                      GoodCase{"KeyEndsInASpace", "a  b 0.5 -0.25", "a  b", 0.5f, -0.25f},
                      GoodCase{"EmptyKeyIsTheCallersToJudge", " 0.5 -0.25", "", 0.5f, -0.25f},
                      GoodCase{"NoWhiteSpaceButBlanks", "a\xC2\xA0 0.5 -0.25", "a\xC2\xA0", 0.5f, -0.25f},
                      // numpy.savetxt and Python's repr of a double: nearest F32.
                      GoodCase{"ManyDigits", "the 1.000000014901161194e-01 0.30000000000000004", "the", 0.1f, 0.3f},
                      GoodCase{"LargestAndSmallest", "the 3.4028235e38 1e-45", "the", std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::denorm_min()},
                      GoodCase{"TooSmallIsZero", "the 1e-60 -1e-400", "the", 0.0f, -0.0f}),
    [](const auto& i) { return i.param.name; });

struct BadCase {
  const char* name;
  const char* line;
  const char* message;
};

class RefusedTextRowTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(RefusedTextRowTest, NamesTheFieldOrTheCount) {
  float vector[2] = {};
  absl::string_view key;
  EXPECT_THAT(ParseTextRow(GetParam().line, 2, false, vector, &key), Fails(kInvalid, GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedTextRowTest,
    ::testing::Values(
        BadCase{"Empty", "", "is empty, wanted a key and 2 numbers"},
        BadCase{"LineEndsOfAnOldMac", "the 1 2\rof 3 4\r",
                "holds a carriage return before its end: lines must end with \\n or \\r\\n"},
        BadCase{"CarriageReturnInTheKey", "the\r 1 2",
                "holds a carriage return before its end: lines must end with \\n or \\r\\n"},
        BadCase{"Blank", "  \r", "is empty, wanted a key and 2 numbers"},
        BadCase{"KeyAlone", "the", "has 1 fields, wanted a key and 2 numbers"},
        BadCase{"OneTooFew", "the 0.5", "has 2 fields, wanted a key and 2 numbers"},
        BadCase{"OneTooMany", "the 0.5 0.25 0.125", "has 3 numbers, wanted a key and 2 numbers"},
        BadCase{"Word", "the 0.5 abc", "field 3 \"abc\" is not a number (the key is field 1)"},
        BadCase{"WordFirst", "the abc 0.5", "field 2 \"abc\" is not a number (the key is field 1)"},
        BadCase{"TwoWords", "the abc def", "field 2 \"abc\" is not a number (the key is field 1)"},
        BadCase{"HalfANumber", "the 0.5 0.25x", "field 3 \"0.25x\" is not a number (the key is field 1)"},
        BadCase{"Comma", "the 0,5 0.25", "field 2 \"0,5\" is not a number (the key is field 1)"},
        BadCase{"Plus", "the +0.5 0.25", "field 2 \"+0.5\" is not a number (the key is field 1)"},
        BadCase{"Hex", "the 0x1p3 0.25", "field 2 \"0x1p3\" is not a number (the key is field 1)"},
        BadCase{"CarriageReturnInside", "the 0.5\r 0.25",
                "holds a carriage return before its end: lines must end with \\n or \\r\\n"},
        BadCase{"TooLarge", "the 0.5 1e39", "field 3 \"1e39\" is beyond the range of F32 (the key is field 1)"},
        BadCase{"FarTooLarge", "the -1e999 1", "field 2 \"-1e999\" is beyond the range of F32 (the key is field 1)"},
        BadCase{"NaN", "the 0.5 nan",
                "field 3 \"nan\" is NaN (allow-non-finite=true serves such rows, searches then leave them out)"},
        BadCase{"Infinity", "the -inf 1",
                "field 2 \"-inf\" is infinite (allow-non-finite=true serves such rows, searches then leave them out)"}),
    [](const auto& i) { return i.param.name; });

TEST(TextRowTest, NonFiniteValuesPassWhereTheyAreAllowed) {
  float vector[2] = {};
  absl::string_view key;
  ASSERT_THAT(ParseTextRow("the nan -inf", 2, true, vector, &key), Succeeds());
  EXPECT_EQ(key, "the");
  EXPECT_TRUE(std::isnan(vector[0]));
  EXPECT_EQ(vector[1], -std::numeric_limits<float>::infinity());
}

TEST(TextRowTest, TrailingNumbersEndAtTheFirstField) {
  EXPECT_EQ(CountTrailingNumbers("the 0.5 -1 2e3"), 3);
  EXPECT_EQ(CountTrailingNumbers("1 0.5 -1 2e3 \r"), 3);
  EXPECT_EQ(CountTrailingNumbers(". . . 0.5"), 1);
  EXPECT_EQ(CountTrailingNumbers("the of"), 0);
  EXPECT_EQ(CountTrailingNumbers("5"), 0);
  EXPECT_EQ(CountTrailingNumbers(""), 0);
}

}  // namespace
}  // namespace embedding
