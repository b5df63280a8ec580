#include "client/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace embedding::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::IsEmpty;

const absl::Status kUnavailable = absl::UnavailableError("draining");

// A world whose clock moves only by sleeping.
struct FakeWorld {
  steady_clock::time_point now{};
  std::vector<int64_t> slept_ms;
  double random = 0.5;  // the middle of the jitter: pauses as planned

  RetryWorld World() {
    return {.now = [this] { return now; },
            .sleep =
                [this](milliseconds pause) {
                  slept_ms.push_back(pause.count());
                  now += pause;
                },
            .random = [this] { return random; }};
  }
};

// Gives the outcomes in turn, the last one for ever.
struct Script {
  std::vector<AttemptOutcome> outcomes;
  size_t attempts = 0;

  AttemptOutcome operator()() { return outcomes[std::min(attempts++, outcomes.size() - 1)]; }
};

absl::Status Retried(FakeWorld& world, Script& script, RetryPolicy policy = {},
                     milliseconds deadline = milliseconds(100'000)) {
  RetryBudget budget;
  return CallWithRetries(policy, world.now + deadline, world.World(), budget, [&] { return script(); });
}

TEST(RetryTest, SuccessIsNotRepeated) {
  FakeWorld world;
  Script script{{{absl::OkStatus(), std::nullopt}}};
  EXPECT_TRUE(Retried(world, script).ok());
  EXPECT_EQ(script.attempts, 1u);
}

TEST(RetryTest, UnavailableIsRepeatedAfterDoublingPauses) {
  FakeWorld world;
  Script script{{{kUnavailable, std::nullopt}}};
  EXPECT_EQ(
      Retried(world, script, {.max_attempts = 5, .first_pause = milliseconds(50), .max_pause = milliseconds(150)}),
      kUnavailable);
  EXPECT_EQ(script.attempts, 5u);
  EXPECT_THAT(world.slept_ms, ElementsAre(50, 100, 150, 150));
}

TEST(RetryTest, JitterStaysWithinAFifthOfThePause) {
  for (const auto& [random, pause] : {std::pair{0.0, 80}, {0.999999, 119}}) {
    FakeWorld world;
    world.random = random;
    Script script{{{kUnavailable, std::nullopt}, {absl::OkStatus(), std::nullopt}}};
    EXPECT_TRUE(Retried(world, script, {.max_attempts = 2, .first_pause = milliseconds(100)}).ok());
    EXPECT_THAT(world.slept_ms, ElementsAre(pause));
  }
}

TEST(RetryTest, OtherErrorsEndAtOnce) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kCancelled,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kInternal}) {
    FakeWorld world;
    Script script{{{absl::Status(code, "no"), std::nullopt}}};
    EXPECT_EQ(Retried(world, script).code(), code);
    EXPECT_EQ(script.attempts, 1u);
  }
}

TEST(RetryTest, OverloadIsRepeatedWhenTheServerSaysWhen) {
  FakeWorld world;
  Script script{{{absl::ResourceExhaustedError("overloaded"), milliseconds(7)}, {absl::OkStatus(), std::nullopt}}};
  EXPECT_TRUE(Retried(world, script).ok());
  EXPECT_THAT(world.slept_ms, ElementsAre(7));
}

TEST(RetryTest, NegativePushbackForbidsRepeating) {
  FakeWorld world;
  Script script{{{kUnavailable, milliseconds(-1)}}};
  EXPECT_EQ(Retried(world, script), kUnavailable);
  EXPECT_EQ(script.attempts, 1u);
}

TEST(RetryTest, NoPauseLastsBeyondTheDeadline) {
  FakeWorld world;
  Script script{{{kUnavailable, std::nullopt}}};
  EXPECT_EQ(Retried(world, script, {.max_attempts = 9, .first_pause = milliseconds(50)}, milliseconds(200)),
            kUnavailable);
  EXPECT_THAT(world.slept_ms, ElementsAre(50, 100));  // 150 ms gone: the next 200 would end at 350
}

TEST(RetryTest, BudgetStopsRetriesWhenEverythingFailsAndRecovers) {
  RetryBudget budget;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(budget.OnFailure()) << i;
  EXPECT_FALSE(budget.OnFailure());  // 5 of 10 tokens left
  for (int i = 0; i < 11; ++i) budget.OnSuccess();
  EXPECT_TRUE(budget.OnFailure());  // 6.1 - 1 > 5
}

TEST(RetryTest, SpentBudgetEndsACallAtItsFirstFailure) {
  FakeWorld world;
  RetryBudget budget;
  for (int i = 0; i < 20; ++i) budget.OnFailure();
  Script script{{{kUnavailable, std::nullopt}}};
  EXPECT_EQ(CallWithRetries({}, world.now + milliseconds(1000), world.World(), budget, [&] { return script(); }),
            kUnavailable);
  EXPECT_EQ(script.attempts, 1u);
  EXPECT_THAT(world.slept_ms, IsEmpty());
}

}  // namespace
}  // namespace embedding::client
