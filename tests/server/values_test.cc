#include "server/values.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace embedding {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(ValuesTest, CountsAreDigitsWithinBounds) {
  EXPECT_EQ(*ParseCount("0", 0, 10), 0);
  EXPECT_EQ(*ParseCount("10", 0, 10), 10);
  EXPECT_EQ(*ParseCount("9223372036854775807", 0, kMax), kMax);
  for (const char* bad :
       {"", "11", "-1", "+1", "1e3", "1.0", " 1", "1 ", "0x1", "ten", "9223372036854775808", "1KiB"}) {
    const absl::StatusOr<int64_t> count = ParseCount(bad, 0, 10);
    EXPECT_FALSE(count.ok()) << bad;
    EXPECT_EQ(count.status().message(), "want a whole number from 0 to 10");
  }
}

TEST(ValuesTest, SizesAreBytesOrBinaryUnits) {
  EXPECT_EQ(*ParseSize("1024", 0, kMax), 1024);
  EXPECT_EQ(*ParseSize("64KiB", 0, kMax), 65536);
  EXPECT_EQ(*ParseSize("16MiB", 0, kMax), 16777216);
  EXPECT_EQ(*ParseSize("1GiB", 0, kMax), 1073741824);
  EXPECT_EQ(*ParseSize("2TiB", 0, kMax), 2199023255552);
  for (const char* bad :
       {"", "MiB", "1MB", "1M", "1mib", "1 MiB", "-1KiB", "1.5GiB", "9007199254740992KiB", "8388608TiB"}) {
    EXPECT_FALSE(ParseSize(bad, 0, kMax).ok()) << bad;
  }
  EXPECT_EQ(ParseSize("1KiB", 2048, 1 << 20).status().message(),
            "want bytes, such as 65536, 16MiB or 1GiB, from 2KiB to 1MiB");
}

TEST(ValuesTest, DurationsHaveAUnit) {
  const milliseconds hour = std::chrono::hours(1);
  EXPECT_EQ(ParseDuration("500ms", milliseconds(0), hour)->count(), 500);
  EXPECT_EQ(ParseDuration("30s", milliseconds(0), hour)->count(), 30000);
  EXPECT_EQ(ParseDuration("2m", milliseconds(0), hour)->count(), 120000);
  EXPECT_EQ(ParseDuration("1h", milliseconds(0), hour)->count(), 3600000);
  EXPECT_EQ(ParseDuration("0", milliseconds(0), hour)->count(), 0);
  for (const char* bad : {"", "30", "s", "-1s", "1.5s", "1d", "61m", "1 s", "5124095576030431h"}) {
    EXPECT_FALSE(ParseDuration(bad, milliseconds(0), hour).ok()) << bad;
  }
  EXPECT_FALSE(ParseDuration("0", milliseconds(1), hour).ok());
}

TEST(ValuesTest, TextsAreTheShortestThatReadTheSame) {
  EXPECT_EQ(SizeText(16777216), "16MiB");
  EXPECT_EQ(SizeText(1536), "1536");
  EXPECT_EQ(SizeText(0), "0");
  EXPECT_EQ(DurationText(milliseconds(30000)), "30s");
  EXPECT_EQ(DurationText(milliseconds(90000)), "90s");
  EXPECT_EQ(DurationText(milliseconds(1500)), "1500ms");
  EXPECT_EQ(DurationText(std::chrono::hours(24)), "24h");
  EXPECT_EQ(DurationText(milliseconds(0)), "0");
  for (const int64_t bytes : {int64_t{1}, int64_t{1000}, int64_t{1} << 20, (int64_t{1} << 30) + 1, int64_t{3} << 40}) {
    EXPECT_EQ(*ParseSize(SizeText(bytes), 0, kMax), bytes);
  }
}

TEST(ValuesTest, BooleansAreTrueAndFalse) {
  EXPECT_TRUE(*ParseBool("true"));
  EXPECT_FALSE(*ParseBool("false"));
  for (const char* bad : {"", "True", "1", "yes"}) EXPECT_FALSE(ParseBool(bad).ok()) << bad;
}

}  // namespace
}  // namespace embedding
