#include "client/loadtest/report.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embedding::loadtest {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kUs = 1000;

RunResult Answered(int64_t calls) {
  RunResult result;
  for (int64_t i = 0; i < calls; ++i) result.service.Record(500 * kUs);
  result.sent = result.answered = calls;
  result.measured_ns = 1'000'000'000;
  return result;
}

ReportContext Context() {
  ReportContext context;
  context.rpc = "Lookup";
  context.item = "rows";
  context.table_name = "words";
  context.batch_size = 64;
  context.rows = 10'000;
  context.dim = 100;
  context.dtype = "F16";
  return context;
}

Threshold Condition(const std::string& text) {
  Threshold threshold;
  std::string error;
  EXPECT_TRUE(ParseThreshold(text, &threshold, &error)) << error;
  return threshold;
}

TEST(ReportTest, TheWorstNewsDecidesTheExitCode) {
  const std::vector<Threshold> missed{Condition("p50>1us")};
  RunResult result = Answered(10);
  EXPECT_EQ(ExitCodeOf({}, result), 0);
  EXPECT_EQ(ExitCodeOf(missed, result), 99);
  result.sent += 5;
  result.errors[14] = {.count = 5, .first_message = "draining"};
  EXPECT_EQ(ExitCodeOf({}, result), 0);
  EXPECT_EQ(ExitCodeOf({Condition("errors>0")}, result), 99);
  RunResult none;
  none.sent = 8;
  none.errors[14] = {.count = 3, .first_message = ""};
  none.errors[4] = {.count = 5, .first_message = ""};
  EXPECT_EQ(ExitCodeOf(missed, none), 64 + 4);
  none.interrupted = true;
  EXPECT_EQ(ExitCodeOf(missed, none), 130);
  none.mismatches = 1;
  EXPECT_EQ(ExitCodeOf(missed, none), 1);
}

// 5 % of 500 us is 25 us, but up to 100 us may be the scheduler of a shared machine.
TEST(ReportTest, LateSendsAreMarked) {
  for (const auto& [lag_us, p50_us, too_high] :
       {std::tuple<int64_t, int64_t, bool>{90, 500, false}, {110, 500, true}, {110, 3000, false}, {160, 3000, true}}) {
    RunResult result;
    for (int i = 0; i < 100; ++i) result.latency.Record(p50_us * kUs);
    for (int i = 0; i < 100; ++i) result.own_lag.Record(lag_us * kUs);
    EXPECT_EQ(SendLagTooHigh(result), too_high) << lag_us << " of " << p50_us;
  }
}

TEST(ReportTest, TextSaysWhatIsMeasuredAndHowSurelyItIs) {
  ReportContext context = Context();
  context.plan.concurrency = 4;
  context.plan.warmup_ns = 1'000'000'000;
  RunResult result = Answered(2000);
  result.warmup_calls = 1234;
  const std::string text = TextReport(context, result);
  EXPECT_THAT(text, AllOf(HasSubstr("Lookup, 64 rows a call, table \"words\""), HasSubstr("10,000 x 100 F16"),
                          HasSubstr("Closed loop: 4 callers on 1 connection\n"),
                          HasSubstr("1.000 s of warm-up before (1,234 calls, 0 failed) is left out"),
                          HasSubstr("2,000 calls/s, 128,000 rows/s"), HasSubstr("service time (closed loop)"),
                          Not(HasSubstr("send lag"))));
  // 20 samples lie beyond p99: few; 200 beyond p90: enough.
  EXPECT_THAT(text, testing::ContainsRegex("p90 +500.. us +200\n"));
  EXPECT_THAT(text, testing::ContainsRegex("p99 +500.. us +20  few: a rough figure\n"));
}

TEST(ReportTest, OpenLoopTextWarnsLoudly) {
  ReportContext context = Context();
  context.plan.open_loop = true;
  context.plan.rate = 2000;
  context.plan.max_in_flight = 16;
  RunResult result = Answered(100);
  result.latency = result.service;
  result.own_lag.Record(1'000'000);
  result.send_lag.Record(1'000'000);
  result.capped = 7;
  EXPECT_THAT(
      TextReport(context, result),
      AllOf(HasSubstr("Open loop: 2,000 calls/s offered, constant arrivals"), HasSubstr("*** THE TESTER FELL BEHIND"),
            HasSubstr("*** 7 calls were sent late"), HasSubstr("--max-in-flight 16")));
}

TEST(ReportTest, TextWithoutAnswersHasNoTimes) {
  RunResult result;
  result.sent = 3;
  result.errors[14] = {.count = 3, .first_message = "draining"};
  EXPECT_THAT(TextReport(Context(), result), AllOf(HasSubstr("failed    3 with UNAVAILABLE, the first: draining"),
                                                   HasSubstr("No call was answered"), Not(HasSubstr("p50"))));
}

// Messages come from the server: quotes, control characters and bytes that are no UTF-8 must not break the JSON.
TEST(ReportTest, JsonEscapesForeignText) {
  RunResult result;
  result.errors[2] = {.count = 1, .first_message = "say \"no\"\n\\ \x01 caf\xc3\xa9 \xff\xc3"};
  EXPECT_THAT(JsonReport(Context(), result),
              HasSubstr("\"say \\\"no\\\"\\u000a\\\\ \\u0001 caf\xc3\xa9 \\ufffd\\ufffd\""));
}

TEST(ReportTest, CodesOutsideTheListKeepTheirNumber) {
  EXPECT_EQ(CodeName(0), "OK");
  EXPECT_EQ(CodeName(16), "UNAUTHENTICATED");
  EXPECT_EQ(CodeName(17), "code 17");
  EXPECT_EQ(CodeName(-1), "code -1");
}

}  // namespace
}  // namespace embedding::loadtest
