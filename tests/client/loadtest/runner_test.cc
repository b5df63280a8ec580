#include "client/loadtest/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/loadtest/simulated_server.h"

namespace embedding::loadtest {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
const std::atomic<bool> kNeverStop{false};

RunResult RunOn(SimulatedServer& server, const RunPlan& plan) {
  Transport* const connections[] = {&server};
  return RunLoadTest(plan, connections, server, kNeverStop);
}

// Answers after 100 us, but answers nothing in the first 200 ms of every 10 s; then it answers all that wait at once.
SimulatedServer::Answer StallingServer(int64_t sent_ns, uint64_t) {
  const int64_t in_period = sent_ns % (10 * kSecond);
  const int64_t begins = in_period < 200 * kMs ? sent_ns - in_period + 200 * kMs : sent_ns;
  return {.done_ns = begins + 100 * kUs};
}

// 1,000 calls per second meet a pause of 200 ms in every 10 s: of 10,000 calls 200 are hit and wait 200, 199, ... 1 ms.
// 1 % = 100 calls lie beyond p99, so p99 is the 101st longest wait: 100 ms. p99.9: the 11th longest: 190 ms.
TEST(RunnerTest, OpenLoopShowsAStallAsCallersWouldFeelIt) {
  SimulatedServer server(1000, StallingServer);
  const RunResult result =
      RunOn(server, {.open_loop = true, .rate = 1000, .max_in_flight = 1000, .duration_ns = 100 * kSecond});
  EXPECT_EQ(result.planned, 100'000);
  EXPECT_EQ(result.answered, 100'000);
  EXPECT_EQ(result.capped, 0);
  EXPECT_NEAR(static_cast<double>(result.latency.ValueAt(0.5)), 100.0 * kUs, 0.001 * 100 * kUs);
  EXPECT_NEAR(static_cast<double>(result.latency.ValueAt(0.99)), 100.0 * kMs, 1.2 * kMs);
  EXPECT_NEAR(static_cast<double>(result.latency.ValueAt(0.999)), 190.0 * kMs, 1.2 * kMs);
  EXPECT_NEAR(static_cast<double>(result.latency.max_ns()), 200.0 * kMs, 1.2 * kMs);
  EXPECT_EQ(result.send_lag.max_ns(), 0);
}

// One caller meets the stall once in 10 s, in about 9,800 calls of 1 ms: one call in 9,800 is beyond every percentile.
TEST(RunnerTest, ClosedLoopHidesTheSameStall) {
  SimulatedServer server(0, [](int64_t sent_ns, uint64_t call) {
    return SimulatedServer::Answer{.done_ns = StallingServer(sent_ns, call).done_ns + 900 * kUs};
  });
  const RunResult result = RunOn(server, {.concurrency = 1, .duration_ns = 100 * kSecond});
  EXPECT_NEAR(static_cast<double>(result.answered), 98'000, 100);
  EXPECT_NEAR(static_cast<double>(result.service.ValueAt(0.999)), 1.0 * kMs, 0.001 * kMs);
  EXPECT_NEAR(static_cast<double>(result.service.max_ns()), 201.0 * kMs, 1.2 * kMs);
  EXPECT_EQ(result.latency.count(), 0);
  EXPECT_EQ(result.send_lag.count(), 0);
}

// A server that takes 10 ms for each call, one after the other, asked 200 times a second with at most 2 calls in
// flight: call i is due at 5 i ms, and answered at 10 (i + 1) ms, so it waits 10 + 5 i ms. Its service is 20 ms at
// most.
TEST(RunnerTest, CapKeepsTheScheduleAndCounts) {
  int64_t free_at = 0;
  SimulatedServer server(2, [&free_at](int64_t sent_ns, uint64_t) {
    free_at = std::max(free_at, sent_ns) + 10 * kMs;
    return SimulatedServer::Answer{.done_ns = free_at};
  });
  const RunResult result = RunOn(server, {.open_loop = true, .rate = 200, .max_in_flight = 2, .requests = 100});
  EXPECT_EQ(result.planned, 100);
  EXPECT_EQ(result.sent, 100);
  EXPECT_EQ(result.answered, 100);
  EXPECT_EQ(server.max_in_flight(), 2);
  // Call i is due at 5 i ms and the slot it gets is free at 10 (i - 1) ms: later, from i = 3 on.
  EXPECT_EQ(result.capped, 97);
  EXPECT_EQ(result.own_lag.count(), 3);
  EXPECT_EQ(result.own_lag.max_ns(), 0);
  EXPECT_EQ(result.latency.max_ns(), 10 * kMs + 99 * 5 * kMs);
  EXPECT_EQ(result.latency.min_ns(), 10 * kMs);
  EXPECT_EQ(result.service.max_ns(), 20 * kMs);
  EXPECT_EQ(result.send_lag.max_ns(), 99 * 5 * kMs - 10 * kMs);
}

TEST(RunnerTest, WarmUpIsSentAndNotMeasured) {
  // Slow for the first second, then fast.
  SimulatedServer server(1000, [first = int64_t{0}](int64_t sent_ns, uint64_t) mutable {
    if (first == 0) first = sent_ns;
    return SimulatedServer::Answer{.done_ns = sent_ns + (sent_ns - first < kSecond ? 50 * kMs : kMs)};
  });
  const RunResult result =
      RunOn(server,
            {.open_loop = true, .rate = 100, .max_in_flight = 1000, .warmup_ns = kSecond, .duration_ns = 2 * kSecond});
  EXPECT_EQ(result.warmup_calls, 100);
  EXPECT_EQ(result.planned, 200);
  EXPECT_EQ(result.latency.max_ns(), kMs);
  EXPECT_THAT(server.prepared(), testing::SizeIs(300));
}

TEST(RunnerTest, OpenLoopSendsExactlyTheRequestsAskedFor) {
  SimulatedServer server(10,
                         [](int64_t sent_ns, uint64_t) { return SimulatedServer::Answer{.done_ns = sent_ns + kMs}; });
  const RunResult result = RunOn(server, {.open_loop = true,
                                          .rate = 100,
                                          .arrivals = Arrivals::kPoisson,
                                          .max_in_flight = 10,
                                          .warmup_ns = kSecond,
                                          .requests = 37});
  EXPECT_EQ(result.sent, 37);
  EXPECT_EQ(result.answered, 37);
}

TEST(RunnerTest, ClosedLoopSendsExactlyTheRequestsAskedFor) {
  SimulatedServer server(0,
                         [](int64_t sent_ns, uint64_t) { return SimulatedServer::Answer{.done_ns = sent_ns + kMs}; });
  const RunResult result = RunOn(server, {.concurrency = 4, .warmup_ns = 10 * kMs, .requests = 37});
  EXPECT_EQ(result.sent, 37);
  EXPECT_EQ(result.answered, 37);
  EXPECT_EQ(server.max_in_flight(), 4);
  // 37 calls by 4 callers of 1 ms each: ten rounds.
  EXPECT_EQ(result.measured_ns, 10 * kMs);
  EXPECT_NEAR(result.AnsweredPerSecond(), 3700, 1e-6);
}

TEST(RunnerTest, ErrorsAreCountedByCodeAndLeftOutOfTheTimes) {
  SimulatedServer server(0, [](int64_t sent_ns, uint64_t call) {
    const int code = call % 10 == 3 ? 8 : call % 10 == 7 ? 4 : 0;
    return SimulatedServer::Answer{.done_ns = sent_ns + (code == 0 ? kMs : 5 * kMs), .code = code};
  });
  const RunResult result = RunOn(server, {.concurrency = 1, .requests = 1000});
  EXPECT_EQ(result.answered, 800);
  EXPECT_EQ(result.failed(), 200);
  EXPECT_THAT(result.errors,
              ElementsAre(Pair(4, testing::Field(&CodeCount::count, 100)),
                          Pair(8, testing::AllOf(testing::Field(&CodeCount::count, 100),
                                                 testing::Field(&CodeCount::first_message, "simulated")))));
  EXPECT_EQ(result.service.max_ns(), kMs);
}

// A server that is gone answers UNAVAILABLE at once: 4 callers who pause 10 ms ask 400 times a second.
TEST(RunnerTest, ClosedLoopPausesAfterUnavailable) {
  SimulatedServer server(
      0, [](int64_t sent_ns, uint64_t) { return SimulatedServer::Answer{.done_ns = sent_ns + kUs, .code = 14}; });
  const RunResult result = RunOn(server, {.concurrency = 4, .duration_ns = kSecond});
  EXPECT_EQ(result.answered, 0);
  EXPECT_NEAR(static_cast<double>(result.failed()), 400, 10);
}

TEST(RunnerTest, VerdictsAreCounted) {
  SimulatedServer server(0, [](int64_t sent_ns, uint64_t call) {
    const Verdict verdict = call == 5 ? Verdict::kMismatch : call == 6 ? Verdict::kMalformed : Verdict::kVerified;
    return SimulatedServer::Answer{.done_ns = sent_ns + kMs, .verdict = verdict};
  });
  const RunResult result = RunOn(server, {.concurrency = 1, .requests = 100});
  EXPECT_EQ(result.verified, 98);
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_EQ(result.malformed, 1);
}

TEST(RunnerTest, SecondsShowWhenItStalled) {
  SimulatedServer server(1000, [first = int64_t{0}](int64_t sent_ns, uint64_t) mutable {
    if (first == 0) first = sent_ns;
    const int64_t since = sent_ns - first;
    return SimulatedServer::Answer{.done_ns = since >= kSecond && since < 2 * kSecond ? first + 2 * kSecond + kMs
                                                                                      : sent_ns + kMs};
  });
  const RunResult result =
      RunOn(server, {.open_loop = true, .rate = 100, .max_in_flight = 1000, .duration_ns = 3 * kSecond});
  ASSERT_THAT(result.seconds, testing::SizeIs(3));
  EXPECT_EQ(result.seconds[0].answered, 100);
  EXPECT_EQ(result.seconds[1].answered, 0);
  EXPECT_EQ(result.seconds[2].answered, 200);
  EXPECT_EQ(result.seconds[2].max_ns, kSecond + kMs);
}

TEST(RunnerTest, SlotsAreSharedOutWithoutLoss) {
  const RunPlan plan{.concurrency = 7};
  EXPECT_EQ(SlotsOf(plan, 3, 0), 3);
  EXPECT_EQ(SlotsOf(plan, 3, 1), 2);
  EXPECT_EQ(SlotsOf(plan, 3, 2), 2);
}

// Real threads and the real clock: a queue that answers at once. For ThreadSanitizer.
class InstantTransport : public Transport {
 public:
  void Prepare(uint32_t slot, uint64_t call, int64_t) override {
    if (calls_.size() <= slot) calls_.resize(slot + 1);
    calls_[slot] = call;
  }
  void Start(uint32_t slot) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    started_.push_back({slot, calls_[slot]});
    changed_.notify_one();
  }
  void FinishSending() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    finished_ = true;
    changed_.notify_one();
  }
  NextResult Next(int64_t until_ns, CallDone* done) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto something = [this] { return finished_ || !started_.empty(); };
    if (until_ns == kForever) {
      changed_.wait(lock, something);
    } else if (!changed_.wait_for(lock, std::chrono::nanoseconds(until_ns - MonotonicClock().NowNs()), something)) {
      return NextResult::kTimeout;
    }
    if (started_.empty()) return NextResult::kClosed;
    *done = {.slot = started_.front().first, .message = "", .done_ns = MonotonicClock().NowNs()};
    seen.push_back(started_.front().second);
    started_.pop_front();
    return NextResult::kDone;
  }
  int64_t bytes_sent() const override { return 0; }

  std::vector<uint64_t> seen;  // numbers of the calls, after the run

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> calls_;
  std::deque<std::pair<uint32_t, uint64_t>> started_;
  bool finished_ = false;
};

class RunnerThreadsTest : public testing::TestWithParam<bool> {};

TEST_P(RunnerThreadsTest, ConnectionsShareTheCallsAndNoneIsLostOrSentTwice) {
  InstantTransport a, b, c;
  Transport* const connections[] = {&a, &b, &c};
  MonotonicClock clock;
  const RunResult result = RunLoadTest({.open_loop = GetParam(),
                                        .rate = 50'000,
                                        .concurrency = 6,
                                        .max_in_flight = 6,
                                        .requests = 3000,
                                        .sample_interval_ns = kMs},
                                       connections, clock, kNeverStop);
  EXPECT_EQ(result.answered, 3000);
  std::vector<uint64_t> seen = a.seen;
  seen.insert(seen.end(), b.seen.begin(), b.seen.end());
  seen.insert(seen.end(), c.seen.begin(), c.seen.end());
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.size(), 3000u);
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  if (GetParam()) {
    EXPECT_EQ(result.latency.count(), 3000);
    EXPECT_GE(result.latency.min_ns(), result.service.min_ns());
  }
}

INSTANTIATE_TEST_SUITE_P(Both, RunnerThreadsTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "OpenLoop" : "ClosedLoop"; });

TEST(RunnerTest, StopEndsTheRunAndSaysSo) {
  const std::atomic<bool> stop{true};
  InstantTransport transport;
  Transport* const connections[] = {&transport};
  MonotonicClock clock;
  const RunResult open = RunLoadTest({.open_loop = true, .rate = 1, .max_in_flight = 1, .duration_ns = 3600 * kSecond},
                                     connections, clock, stop);
  EXPECT_TRUE(open.interrupted);
  EXPECT_EQ(open.sent, 0);
  InstantTransport other;
  Transport* const closed_connections[] = {&other};
  EXPECT_TRUE(
      RunLoadTest({.concurrency = 1, .duration_ns = 3600 * kSecond}, closed_connections, clock, stop).interrupted);
}

}  // namespace
}  // namespace embedding::loadtest
