#include "client/cli/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace embedding::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(WordsTest, IdsAreNumbersRangesAndLists) {
  std::istringstream in;
  EXPECT_THAT(ParseIds({"5"}, in)->values, ElementsAre(5));
  EXPECT_THAT(ParseIds({"0-3,17", "2"}, in)->values, ElementsAre(0, 1, 2, 3, 17, 2));
  EXPECT_THAT(ParseIds({"7-7"}, in)->values, ElementsAre(7));
  EXPECT_THAT(ParseIds({"9223372036854775807"}, in)->values, ElementsAre(INT64_MAX));
}

TEST(WordsTest, IdsFromStdinComeInThePlaceOfTheDash) {
  std::istringstream in("4\n\n6-7,1\r\n");
  EXPECT_THAT(ParseIds({"9", "-", "8"}, in)->values, ElementsAre(9, 4, 6, 7, 1, 8));
}

TEST(WordsTest, WrongIdsAreNamed) {
  const struct {
    const char* word;
    const char* message;
  } cases[] = {
      {"robot", R"("robot" is neither an id (0 or more) nor a range such as 0-9)"},
      {"-5", R"("-5" is neither an id)"},
      {"", R"("" is neither an id)"},
      {"1,,2", R"("" is neither an id)"},
      {"3-", R"("3-" is neither an id)"},
      {"1-2-3", R"("1-2-3" is neither an id)"},
      {"1.5", R"("1.5" is neither an id)"},
      {"9223372036854775808", R"("9223372036854775808" is neither an id)"},
      {"9-3", R"(the range "9-3" runs backwards)"},
      {"0-10000000", R"("0-10000000" makes it more than 10000000 ids)"},
      {"5,0-9223372036854775807", "makes it more than 10000000 ids"},
  };
  for (const auto& c : cases) {
    std::istringstream in;
    const absl::Status status = ParseIds({c.word}, in).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.word;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(WordsTest, KeysAreTakenAsTheyAre) {
  std::istringstream in("new york\n-\n\n  2000 \r\n");
  EXPECT_THAT(ParseKeys({"robot", "7", "-"}, in)->values, ElementsAre("robot", "7", "new york", "-", "  2000 "));
}

TEST(WordsTest, StdinCanBeReadOnce) {
  std::istringstream in("a\n");
  EXPECT_EQ(std::string(ParseKeys({"-", "-"}, in).status().message()),
            "\"-\" is given twice, but stdin can be read once");
}

TEST(WordsTest, AnalogiesHaveASignBeforeEachKeyButTheFirst) {
  const auto analogy = ParseAnalogy({"king", "-", "man", "+", "woman", "-", "-x"});
  ASSERT_TRUE(analogy.ok()) << analogy.status();
  EXPECT_THAT(analogy->positive, ElementsAre("king", "woman"));
  EXPECT_THAT(analogy->negative, ElementsAre("man", "-x"));
  EXPECT_THAT(ParseAnalogy({"-", "man"})->negative, ElementsAre("man"));
  EXPECT_THAT(ParseAnalogy({"+", "man"})->positive, ElementsAre("man"));
  EXPECT_TRUE(ParseAnalogy({}).ok());
  const auto message = [](const std::vector<std::string>& words) {
    return std::string(ParseAnalogy(words).status().message());
  };
  EXPECT_EQ(message({"king", "man"}), "\"man\" has no sign: write + or - before it, as in king - man + woman");
  EXPECT_EQ(message({"king", "-", "+", "man"}), "\"+\" stands behind \"-\"");
  EXPECT_EQ(message({"king", "-"}), "no key stands behind the last \"-\"");
}

TEST(WordsTest, RangesOfRowsAreHalfOpen) {
  EXPECT_EQ(*ParseRowRange("5:9"), std::pair(int64_t{5}, int64_t{9}));
  EXPECT_EQ(*ParseRowRange(":9"), std::pair(int64_t{0}, int64_t{9}));
  EXPECT_EQ(*ParseRowRange("5:"), std::pair(int64_t{5}, int64_t{0}));
  EXPECT_EQ(*ParseRowRange(":"), std::pair(int64_t{0}, int64_t{0}));
  for (const char* word : {"5", "", "a:b", "-1:2", "1:2:3", "1.5:2"}) {
    EXPECT_THAT(std::string(ParseRowRange(word).status().message()), HasSubstr("is no range of rows")) << word;
  }
  for (const char* word : {"5:5", "9:5", ":0"}) {
    EXPECT_THAT(std::string(ParseRowRange(word).status().message()), HasSubstr("holds no row")) << word;
  }
}

TEST(WordsTest, VectorsAreRowsOfNumbers) {
  std::istringstream in("4 5\n\n6,\t7\n");
  const auto vectors = ParseVectors({"1,-2.5", "+3e-1,.5", "-"}, in);
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  EXPECT_THAT(vectors->values, ElementsAre(1, -2.5f, 0.3f, 0.5f, 4, 5, 6, 7));
  EXPECT_EQ(vectors->dim, 2);
}

TEST(WordsTest, WrongVectorsAreNamed) {
  const struct {
    std::vector<std::string> words;
    const char* message;
  } cases[] = {
      {{"1,x"}, "\"x\" is no number"},
      {{"1,2-"}, "\"2-\" is no number"},
      {{"+"}, "\"+\" is no number"},
      {{"1e99"}, "\"1e99\" is beyond 32-bit floating point"},
      {{","}, "a vector without numbers"},
      {{"1,2", "3,4,5"}, "vector 1 has 3 numbers, vector 0 has 2"},
      {{"1,2", "3,4", "5"}, "vector 2 has 1 numbers, vector 0 has 2"},
  };
  for (const auto& c : cases) {
    std::istringstream in;
    EXPECT_EQ(std::string(ParseVectors(c.words, in).status().message()), c.message);
  }
}

TEST(WordsTest, NoLinesAreNoRows) {
  std::istringstream in;
  EXPECT_THAT(ParseIds({"-"}, in)->values, IsEmpty());
}

}  // namespace
}  // namespace embedding::client
