#include "server/service/log_format.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

#include "gtest/gtest.h"

namespace embedding {
namespace {

struct Escape {
  const char* name;
  std::string value;
  const char* text;  // as a field's value
  const char* json;  // between the quotes
};

void PrintTo(const Escape& value, std::ostream* out) { *out << value.name; }

class LogFormatTest : public ::testing::TestWithParam<Escape> {};

TEST_P(LogFormatTest, WritesFieldAsText) {
  EXPECT_EQ(FormatText("m", {{"k", GetParam().value}}), std::string("m k=") + GetParam().text);
}

TEST_P(LogFormatTest, WritesFieldAsJson) {
  EXPECT_EQ(FormatJson("m", {{"k", GetParam().value}}), std::string(R"("msg":"m","k":")") + GetParam().json + '"');
}

INSTANTIATE_TEST_SUITE_P(
    Values, LogFormatTest,
    ::testing::Values(Escape{"Plain", "words", "words", "words"}, Escape{"Empty", "", "\"\"", ""},
                      Escape{"Blank", "a b", "\"a b\"", "a b"}, Escape{"EqualsSign", "a=b", "\"a=b\"", "a=b"},
                      Escape{"Quote", "a\"b", R"("a\"b")", R"(a\"b)"},
                      Escape{"Backslash", "a\\b", R"("a\\b")", R"(a\\b)"},
                      Escape{"NewLine", "a\nlevel=error", R"("a\nlevel=error")", R"(a\nlevel=error)"},
                      Escape{"ReturnAndTab", "\r\t", R"("\r\t")", R"(\r\t)"},
                      Escape{"TerminalEscape", "\x1b[2J", R"("\x1b[2J")", R"(\u001b[2J)"},
                      Escape{"Nul", std::string("a\0b", 3), R"("a\x00b")", R"(a\u0000b)"},
                      Escape{"Delete", "\x7f", R"("\x7f")", R"(\u007f)"},
                      Escape{"Utf8", "größe-日本-😀", "größe-日本-😀", "größe-日本-😀"},
                      Escape{"C1Control", "\xc2\x9b", R"("\u009b")", R"(\u009b)"},
                      Escape{"LineSeparator", "\xe2\x80\xa8", R"("\u2028")", R"(\u2028)"},
                      Escape{"StrayContinuation", "a\x80", R"("a\x80")", R"(a\ufffd)"},
                      Escape{"Overlong", "\xc0\xaf", R"("\xc0\xaf")", R"(\ufffd\ufffd)"},
                      Escape{"OverlongOfThree", "\xe0\x80\xaf", R"("\xe0\x80\xaf")", R"(\ufffd\ufffd\ufffd)"},
                      Escape{"Surrogate", "\xed\xa0\x80", R"("\xed\xa0\x80")", R"(\ufffd\ufffd\ufffd)"},
                      Escape{"BeyondUnicode", "\xf4\x90\x80\x80", R"("\xf4\x90\x80\x80")",
                             R"(\ufffd\ufffd\ufffd\ufffd)"},
                      Escape{"CutShort", "\xe6\x97", R"("\xe6\x97")", R"(\ufffd\ufffd)"}),
    [](const auto& test) { return test.param.name; });

TEST(LogLineTest, MessageStaysOneLine) {
  EXPECT_EQ(FormatText("two\nlines", {}), "two\\nlines");
  EXPECT_EQ(FormatJson("two\nlines", {}), R"("msg":"two\nlines")");
}

TEST(LogLineTest, NumbersAndBooleansAreBare) {
  EXPECT_EQ(FormatText("m", {{"rows", 10000}, {"id", int64_t{-1}}, {"ok", true}, {"s", 0.25}}),
            "m rows=10000 id=-1 ok=true s=0.25");
  EXPECT_EQ(FormatJson("m", {{"rows", 10000}, {"id", int64_t{-1}}, {"ok", true}, {"s", 0.25}}),
            R"("msg":"m","rows":10000,"id":-1,"ok":true,"s":0.25)");
}

TEST(LogLineTest, NumbersThatJsonLacksAreStrings) {
  EXPECT_EQ(FormatJson("m", {{"a", std::nan("")}, {"b", -std::numeric_limits<double>::infinity()}}),
            R"("msg":"m","a":"nan","b":"-inf")");
}

}  // namespace
}  // namespace embedding
