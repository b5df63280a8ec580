#include "client/loadtest/threshold.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embedding::loadtest {
namespace {

using testing::HasSubstr;

// 1,000 calls of 1, 2, ..., 1000 us over one second, of which ten failed.
RunResult ThousandCalls() {
  RunResult result;
  for (int64_t us = 1; us <= 990; ++us) result.service.Record(us * 1000);
  result.sent = 1000;
  result.answered = 990;
  result.measured_ns = 1'000'000'000;
  return result;
}

struct ThresholdCase {
  std::string text;
  bool holds;
};

class ThresholdTest : public testing::TestWithParam<ThresholdCase> {};

TEST_P(ThresholdTest, IsJudgedByTheResult) {
  Threshold threshold;
  std::string error;
  ASSERT_TRUE(ParseThreshold(GetParam().text, &threshold, &error)) << error;
  EXPECT_EQ(Holds(threshold, ThousandCalls()), GetParam().holds) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(All, ThresholdTest,
                         testing::Values(ThresholdCase{"p50>490us", true}, ThresholdCase{"p50>500us", false},
                                         ThresholdCase{"p50 > 0.49ms", true}, ThresholdCase{"p90>0.0005s", true},
                                         ThresholdCase{"p99>2ms", false}, ThresholdCase{"p99<2ms", true},
                                         ThresholdCase{"p99.9>980us", true}, ThresholdCase{"max>=990us", true},
                                         ThresholdCase{"max>990us", false}, ThresholdCase{"max<=990 us", true},
                                         ThresholdCase{"mean>495us", true}, ThresholdCase{"mean>496us", false},
                                         ThresholdCase{"errors>0", true}, ThresholdCase{"errors>10", false},
                                         ThresholdCase{"errors>0.9%", true}, ThresholdCase{"errors>1%", false},
                                         ThresholdCase{"rate<991", true}, ThresholdCase{"rate<990", false},
                                         ThresholdCase{" rate >= 990 ", true}));

TEST(ThresholdTest, UsesLatencyWhereThereIsOne) {
  RunResult result = ThousandCalls();
  result.latency.Record(5'000'000);
  Threshold threshold;
  std::string error;
  ASSERT_TRUE(ParseThreshold("max>4ms", &threshold, &error)) << error;
  EXPECT_TRUE(Holds(threshold, result));
}

struct BadThreshold {
  std::string text;
  std::string reason;
};

class BadThresholdTest : public testing::TestWithParam<BadThreshold> {};

TEST_P(BadThresholdTest, IsRefusedWithTheReason) {
  Threshold threshold;
  std::string error;
  EXPECT_FALSE(ParseThreshold(GetParam().text, &threshold, &error));
  EXPECT_THAT(error, HasSubstr("\"" + GetParam().text + "\""));
  EXPECT_THAT(error, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(All, BadThresholdTest,
                         testing::Values(BadThreshold{"", "comparison"}, BadThreshold{"p99", "comparison"},
                                         BadThreshold{"p99=2ms", "comparison"}, BadThreshold{"p95>2ms", "one of p50"},
                                         BadThreshold{">2ms", "one of p50"}, BadThreshold{"p99>", "number"},
                                         BadThreshold{"p99>2", "unit"}, BadThreshold{"p99>2m", "unit"},
                                         BadThreshold{"p99>-2ms", "number"}, BadThreshold{"p99>nanms", "number"},
                                         BadThreshold{"p99>>2ms", "number"}, BadThreshold{"errors>2ms", "count"},
                                         BadThreshold{"rate<5%", "no unit"}, BadThreshold{"p99>2ms please", "unit"}));

}  // namespace
}  // namespace embedding::loadtest
