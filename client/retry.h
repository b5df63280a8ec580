// When a request that failed is sent again.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace embedding::client {

// Keeps retries from multiplying the load on a server that fails everything: each retryable failure takes a token, each
// success gives a tenth back, and retries stop while half of the ten tokens or fewer are left (gRPC proposal A6, retry
// throttling). Thread-safe.
class RetryBudget {
 public:
  void OnSuccess();
  // True if the failed request may be sent again.
  bool OnFailure();

 private:
  std::mutex mutex_;
  double tokens_ = 10;  // guarded by mutex_
};

struct RetryPolicy {
  int max_attempts = 4;
  std::chrono::milliseconds first_pause{50};  // doubled for each further attempt, then 0.8 to 1.2 of it
  std::chrono::milliseconds max_pause{1000};
};

// What retrying needs of the world; tests put their own here.
struct RetryWorld {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(std::chrono::milliseconds)> sleep;
  std::function<double()> random;  // uniform in [0, 1)

  static RetryWorld Real();
};

// How one attempt ended.
struct AttemptOutcome {
  absl::Status status;
  std::optional<std::chrono::milliseconds> pushback;  // grpc-retry-pushback-ms; negative: do not send again
};

// Calls attempt until it succeeds, fails for good, or may not be repeated; gives the last status. Repeated are
// UNAVAILABLE, and RESOURCE_EXHAUSTED where the server said when to come back. No pause is begun that would last beyond
// deadline.
absl::Status CallWithRetries(const RetryPolicy& policy, std::chrono::steady_clock::time_point deadline,
                             const RetryWorld& world, RetryBudget& budget, absl::FunctionRef<AttemptOutcome()> attempt);

}  // namespace embedding::client
