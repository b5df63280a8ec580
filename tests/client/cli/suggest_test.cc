#include "client/cli/suggest.h"

#include <gtest/gtest.h>

namespace embedding::client {
namespace {

TEST(SuggestTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("--gprc", "--grpc"), 1u);  // a swap is one edit
  EXPECT_EQ(EditDistance("same", "same"), 0u);
}

TEST(SuggestTest, SuggestsTheClosestWithinTwoEdits) {
  EXPECT_EQ(Suggestion("lokup", {"info", "lookup"}), "lookup");
  EXPECT_EQ(Suggestion("tabel", {"tables", "table"}), "table");
  EXPECT_EQ(Suggestion("help", {"lookup", "info"}), "");
  EXPECT_EQ(Suggestion(std::string(1000, 'x'), {std::string(1000, 'x')}), "");
}

}  // namespace
}  // namespace embedding::client
