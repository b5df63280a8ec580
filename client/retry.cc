#include "client/retry.h"

#include <algorithm>
#include <random>
#include <thread>

namespace embedding::client {
namespace {

constexpr double kMaxTokens = 10;
constexpr double kTokensPerSuccess = 0.1;

bool IsRetryable(const AttemptOutcome& outcome) {
  if (outcome.pushback && outcome.pushback->count() < 0) return false;
  return absl::IsUnavailable(outcome.status) ||
         (absl::IsResourceExhausted(outcome.status) && outcome.pushback.has_value());
}

}  // namespace

void RetryBudget::OnSuccess() {
  std::lock_guard<std::mutex> lock(mutex_);
  tokens_ = std::min(kMaxTokens, tokens_ + kTokensPerSuccess);
}

bool RetryBudget::OnFailure() {
  std::lock_guard<std::mutex> lock(mutex_);
  tokens_ = std::max(0.0, tokens_ - 1);
  return tokens_ > kMaxTokens / 2;
}

RetryWorld RetryWorld::Real() {
  return {
      .now = [] { return std::chrono::steady_clock::now(); },
      .sleep = [](std::chrono::milliseconds pause) { std::this_thread::sleep_for(pause); },
      .random =
          [] {
            thread_local std::minstd_rand engine{std::random_device{}()};
            return std::uniform_real_distribution<double>(0, 1)(engine);
          },
  };
}

absl::Status CallWithRetries(const RetryPolicy& policy, std::chrono::steady_clock::time_point deadline,
                             const RetryWorld& world, RetryBudget& budget,
                             absl::FunctionRef<AttemptOutcome()> attempt) {
  std::chrono::milliseconds pause = policy.first_pause;
  for (int attempts = 1;; ++attempts) {
    const AttemptOutcome outcome = attempt();
    if (outcome.status.ok()) {
      budget.OnSuccess();
      return outcome.status;
    }
    if (!IsRetryable(outcome) || !budget.OnFailure() || attempts >= policy.max_attempts) return outcome.status;
    std::chrono::milliseconds wait = outcome.pushback.value_or(
        std::chrono::milliseconds(static_cast<int64_t>(pause.count() * (0.8 + 0.4 * world.random()))));
    if (world.now() + wait >= deadline) return outcome.status;
    world.sleep(wait);
    pause = std::min(pause * 2, policy.max_pause);
  }
}

}  // namespace embedding::client
