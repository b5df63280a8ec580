#include "server/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ConfigFileTest, ReadsStringsNumbersBooleansAndLists) {
  const auto entries = ParseConfigText(
      "# a comment\n"
      "grpc-address = \"127.0.0.1:50051\"  # another\n"
      "\r\n"
      "max-ids=65_536\r\n"
      "  reflection = false\n"
      "table = [\"a=b c#d\", 'e=\\f',\n"
      "  # between\n"
      "  \"g=\\\"h\\\\\\t\\n\",\n"
      "]\n"
      "empty = []",
      "f");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 5u);
  EXPECT_EQ((*entries)[0].key, "grpc-address");
  EXPECT_THAT((*entries)[0].values, ElementsAre("127.0.0.1:50051"));
  EXPECT_EQ((*entries)[0].line, 2);
  EXPECT_THAT((*entries)[1].values, ElementsAre("65536"));
  EXPECT_EQ((*entries)[1].line, 4);
  EXPECT_THAT((*entries)[2].values, ElementsAre("false"));
  EXPECT_FALSE((*entries)[2].is_list);
  EXPECT_THAT((*entries)[3].values, ElementsAre("a=b c#d", "e=\\f", "g=\"h\\\t\n"));
  EXPECT_TRUE((*entries)[3].is_list);
  EXPECT_EQ((*entries)[3].line, 6);
  EXPECT_THAT((*entries)[4].values, ElementsAre());
  EXPECT_EQ((*entries)[4].line, 10);
}

struct BadText {
  std::string name;
  std::string text;
  std::string line;  // "f:LINE: "
  std::string told;
};

class BadTextTest : public ::testing::TestWithParam<BadText> {};

TEST_P(BadTextTest, IsRefusedWithFileAndLine) {
  const auto entries = ParseConfigText(GetParam().text, "f");
  ASSERT_FALSE(entries.ok());
  const std::string message(entries.status().message());
  EXPECT_THAT(message, StartsWith(GetParam().line));
  EXPECT_THAT(message, HasSubstr(GetParam().told));
}

INSTANTIATE_TEST_SUITE_P(All, BadTextTest,
                         ::testing::Values(BadText{"Section", "[server]\n", "f:1: ", "sections"},
                                           BadText{"NoKey", "\n= 1\n", "f:2: ", "key = value"},
                                           BadText{"NoEquals", "a 1\n", "f:1: ", "'='"},
                                           BadText{"NoValue", "a =\n", "f:1: ", "want a value"},
                                           BadText{"BareText", "a = 30s\n", "f:1: ", "\"30s\""},
                                           BadText{"Float", "a = 1.5\n", "f:1: ", "more than one value"},
                                           BadText{"TwoValues", "a = 1 2\n", "f:1: ", "more than one value"},
                                           BadText{"Twice", "a = 1\n\na = 2\n", "f:3: ", "line 1"},
                                           BadText{"OpenString", "a = \"b\nc = 1\n", "f:1: ", "does not end"},
                                           BadText{"OpenAtTheEnd", "a = \"b\\", "f:1: ", ""},
                                           BadText{"Escape", "a = \"\\u0041\"\n", "f:1: ", "\\"},
                                           BadText{"OpenList", "a = [\"b\",\n\n", "f:3: ", "list"},
                                           BadText{"NumberInList", "a = [1]\n", "f:1: ", "list"},
                                           BadText{"NoComma", "a = [\"b\" \"c\"]\n", "f:1: ", ","},
                                           BadText{"OnlyMinus", "a = -\n", "f:1: ", "no value"}),
                         [](const auto& param) { return param.param.name; });

TEST(ConfigFileTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(std::string(ReadConfigFile("/nowhere/server.toml").status().message()),
              HasSubstr("cannot read '/nowhere/server.toml'"));
  EXPECT_FALSE(ReadConfigFile("/").ok());
}

}  // namespace
}  // namespace embedding
