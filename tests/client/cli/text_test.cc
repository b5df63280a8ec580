#include "client/cli/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

namespace embedding::client {
namespace {

TEST(TextTest, FloatsAreAsShortAsTheyCanBeAndReadBack) {
  EXPECT_EQ(Shortest(1.7f), "1.7");
  EXPECT_EQ(Shortest(-0.5f), "-0.5");
  EXPECT_EQ(Shortest(0.0f), "0");
  EXPECT_EQ(Shortest(24.0f), "24");
  EXPECT_EQ(Shortest(0.76823825f), "0.76823825");
  for (const float value : {1e-45f, 16777217.0f, 3.4028235e38f, 0.1f + 0.2f}) {
    EXPECT_EQ(std::strtof(Shortest(value).c_str(), nullptr), value);
  }
}

TEST(TextTest, ControlCharactersAreShownAndOtherTextIsKept) {
  EXPECT_EQ(Printable("plain \"quoted\" \xc3\xa4"), "plain \"quoted\" \xc3\xa4");
  EXPECT_EQ(Printable("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
  EXPECT_EQ(Printable("\x7f\xc2\x9b"), "\\x7f\\xc2\\x9b");
  EXPECT_EQ(Printable("a\nb"), "a\\x0ab");
}

TEST(TextTest, CsvFieldsAreQuotedWhereNeeded) {
  EXPECT_EQ(CsvField("plain"), "plain");
  EXPECT_EQ(CsvField(","), "\",\"");
  EXPECT_EQ(CsvField("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(CsvField("two\nlines"), "\"two\nlines\"");
}

TEST(TextTest, JsonStringsEscapeWhatTheyMust) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x01\xc3\xa4"), "\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa4\"");
}

TEST(TextTest, JsonFloatsNameWhatIsNoNumber) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(JsonFloats(std::vector<float>{1, -0.5f, NAN, inf, -inf}), R"([1,-0.5,"NaN","Infinity","-Infinity"])");
  EXPECT_EQ(JsonFloats({}), "[]");
}

TEST(TextTest, ColumnsAreAlignedByCodePoints) {
  TextTable table({{"ID", Align::kRight}, {"KEY", Align::kLeft}, {"X", Align::kLeft}});
  table.AddRow({"7", "na\xc3\xafve", "1"});
  table.AddRow({"123", "a\x1b", "2"});
  std::ostringstream out;
  table.Write(out);
  EXPECT_EQ(out.str(),
            " ID  KEY    X\n"
            "  7  na\xc3\xafve  1\n"
            "123  a\\x1b  2\n");
}

}  // namespace
}  // namespace embedding::client
