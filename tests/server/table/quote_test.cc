#include "server/table/quote.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

TEST(QuoteTest, KeepsPrintableTextAndValidUtf8) {
  EXPECT_EQ(Quoted("a b-Z_9"), "\"a b-Z_9\"");
  EXPECT_EQ(EscapedText("naïve 東京 🤖"), "naïve 東京 🤖");
}

TEST(QuoteTest, EscapesWhatWouldBreakALineOrATerminal) {
  EXPECT_EQ(EscapedText("a\nb\r\t"), "a\\nb\\r\\t");
  EXPECT_EQ(EscapedText("\"\\"), "\\\"\\\\");
  EXPECT_EQ(EscapedText(absl::string_view("\0\x1b[31m\x7f", 7)), "\\x00\\x1b[31m\\x7f");
  EXPECT_EQ(EscapedText("\xC2\x9B"), "\\xc2\\x9b");  // C1 control "CSI"
}

TEST(QuoteTest, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(EscapedText("\xff"), "\\xff");
  EXPECT_EQ(EscapedText("\xC0\x80"), "\\xc0\\x80");                    // overlong
  EXPECT_EQ(EscapedText("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(EscapedText("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(EscapedText("\xE6\x9D"), "\\xe6\\x9d");                    // cut
}

TEST(QuoteTest, CutsBetweenCharacters) {
  EXPECT_EQ(EscapedText("abcdef", 6), "abcdef");
  EXPECT_EQ(EscapedText("abcdefg", 6), "abcdef...");
  EXPECT_EQ(EscapedText("ab東京", 6), "ab東...");
}

TEST(QuoteTest, PutsThePathBeforeTheMessageAndKeepsTheCode) {
  EXPECT_THAT(WithPath("a\nb", absl::DataLossError("is bad")), Fails(kDataLoss, "a\\nb: is bad"));
  EXPECT_THAT(WithPath("a", absl::OkStatus()), Succeeds());
}

}  // namespace
}  // namespace embedding
