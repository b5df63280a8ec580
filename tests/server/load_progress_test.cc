#include "server/load_progress.h"

#include <gtest/gtest.h>

namespace embedding {
namespace {

TEST(ProgressTextTest, TellsShareSizeRateAndTimeLeft) {
  EXPECT_EQ(ProgressText("words", 256 << 20, 1 << 30, std::chrono::seconds(2)),
            "loading words  25 %  256.0 of 1024.0 MiB  128.0 MiB/s  6 s left");
}

TEST(ProgressTextTest, SaysNothingOfARateItDoesNotKnow) {
  EXPECT_EQ(ProgressText("words", 0, 1 << 20, std::chrono::seconds(0)), "loading words  0 %  0.0 of 1.0 MiB");
  EXPECT_EQ(ProgressText("words", 0, 0, std::chrono::seconds(1)), "loading words  0 %  0.0 of 0.0 MiB");
}

}  // namespace
}  // namespace embedding
