#include "server/nearest_name.h"

#include <gtest/gtest.h>

namespace embedding {
namespace {

TEST(NearestNameTest, CountsInsertedDroppedAndChangedLetters) {
  const std::vector<std::string> names = {"max-ids", "max-k", "max-pairs"};
  EXPECT_EQ(NearestName("max-id", names), "max-ids");
  EXPECT_EQ(NearestName("max-idss", names), "max-ids");
  EXPECT_EQ(NearestName("max-jds", names), "max-ids");
  EXPECT_EQ(NearestName("mx-pair", names), "max-pairs");
  EXPECT_EQ(NearestName("max-k", names), "max-k");
}

TEST(NearestNameTest, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(NearestName("reflection", {"max-ids", "threads"}), "");
  EXPECT_EQ(NearestName("abc", {"xyz"}), "");
  EXPECT_EQ(NearestName("abc", {}), "");
}

TEST(NearestNameTest, TakesTheFirstOfEquallyNear) { EXPECT_EQ(NearestName("ab", {"ac", "ad"}), "ac"); }

}  // namespace
}  // namespace embedding
