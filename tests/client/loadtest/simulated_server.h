// A connection to a server in simulated time: two threads drive it, yet every run gives the same numbers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <queue>
#include <utility>
#include <vector>

#include "client/loadtest/transport.h"

namespace embedding::loadtest {

// Clock and connection in one, since the calls move the clock. For one connection. The server's answer time is a
// function of the send time. In the open loop time advances only when the sender sleeps, or waits for a slot because
// `cap` calls are in flight: everything due until then is delivered first. In the closed loop (cap 0) each delivery
// advances it.
class SimulatedServer : public Clock, public Transport {
 public:
  struct Answer {
    int64_t done_ns = 0;
    int code = 0;
    Verdict verdict = Verdict::kUnchecked;
  };

  SimulatedServer(int cap, std::function<Answer(int64_t sent_ns, uint64_t call)> model)
      : cap_(cap), model_(std::move(model)), horizon_(cap == 0 ? kForever : 0) {}

  int64_t NowNs() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }

  void SleepUntil(int64_t time_ns) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t target = std::max(now_, time_ns);
    horizon_ = std::max(horizon_, target);
    changed_.notify_all();
    changed_.wait(lock, [&] { return receiver_waits_ && (due_.empty() || due_.top().done_ns > horizon_); });
    now_ = std::max(now_, target);
  }

  void Prepare(uint32_t slot, uint64_t call, int64_t) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (calls_.size() <= slot) calls_.resize(slot + 1);
    calls_[slot] = call;
    prepared_.push_back(call);
  }

  void Start(uint32_t slot) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Answer answer = model_(now_, calls_[slot]);
    due_.push({.done_ns = answer.done_ns, .slot = slot, .code = answer.code, .verdict = answer.verdict});
    ++in_flight_;
    max_in_flight_ = std::max(max_in_flight_, in_flight_);
    if (cap_ > 0 && in_flight_ == cap_) horizon_ = std::max(horizon_, due_.top().done_ns);
    changed_.notify_all();
  }

  void FinishSending() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    finished_ = true;
    horizon_ = kForever;
    changed_.notify_all();
  }

  NextResult Next(int64_t until_ns, CallDone* done) override {
    std::unique_lock<std::mutex> lock(mutex_);
    receiver_waits_ = true;
    changed_.notify_all();
    if (until_ns != kForever && (due_.empty() || due_.top().done_ns > until_ns)) {
      now_ = std::max(now_, until_ns);
      return NextResult::kTimeout;
    }
    changed_.wait(lock, [&] { return due_.empty() ? finished_ : due_.top().done_ns <= horizon_; });
    if (due_.empty()) return NextResult::kClosed;
    receiver_waits_ = false;
    const Due due = due_.top();
    due_.pop();
    --in_flight_;
    now_ = std::max(now_, due.done_ns);
    *done = {.slot = due.slot,
             .code = due.code,
             .message = due.code == 0 ? "" : "simulated",
             .done_ns = due.done_ns,
             .bytes = 100,
             .verdict = due.verdict};
    return NextResult::kDone;
  }

  int64_t bytes_sent() const override { return 0; }

  // Numbers of the calls in the order in which they were prepared; after the run.
  const std::vector<uint64_t>& prepared() const { return prepared_; }
  int max_in_flight() const { return max_in_flight_; }

 private:
  struct Due {
    int64_t done_ns;
    uint32_t slot;
    int code;
    Verdict verdict;
    bool operator>(const Due& other) const { return done_ns > other.done_ns; }
  };

  const int cap_;
  const std::function<Answer(int64_t, uint64_t)> model_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t now_ = 1'000'000'000;
  int64_t horizon_;
  bool receiver_waits_ = false;
  bool finished_ = false;
  int in_flight_ = 0;
  int max_in_flight_ = 0;
  std::vector<uint64_t> calls_;
  std::vector<uint64_t> prepared_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace embedding::loadtest
