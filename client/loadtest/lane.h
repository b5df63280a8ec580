// One connection's share of a run. Private to the runner.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "client/loadtest/runner.h"

namespace embedding::loadtest {

// What all lanes share.
struct RunState {
  const RunPlan& plan;
  Clock& clock;
  const std::atomic<bool>& stop;
  int64_t start_ns = 0;  // planned times count from here
  int64_t measure_from_ns = 0;
  int64_t measure_until_ns = 0;  // Transport::kForever when the plan ends by count
  int num_lanes = 1;
  std::atomic<int64_t> measured_sends{0};  // closed loop with a count
};

class Lane {
 public:
  Lane(RunState& state, Transport& transport, int index);

  // Open loop: SendOpenLoop on one thread, ReceiveOpenLoop on another.
  void SendOpenLoop();
  void ReceiveOpenLoop();
  // Closed loop: all on one thread.
  void RunClosedLoop();

  int64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  // Adds this lane's counts; after its threads have ended.
  void AddTo(RunResult& result) const;

 private:
  struct Slot {
    uint64_t call = 0;
    int64_t planned_ns = 0;
    int64_t sent_ns = 0;
    bool measured = false;
  };

  void SendOne(uint32_t slot, uint64_t call);
  bool MaySendMore(int64_t now_ns);
  void Count(const CallDone& done);
  void CountVerdict(const CallDone& done);
  SecondStats& SecondOf(int64_t time_ns);

  struct FreeSlot {
    uint32_t slot = 0;
    int64_t since_ns = 0;
  };
  FreeSlot TakeFreeSlot();  // the one that has been free for longest; waits for one
  void GiveBack(FreeSlot slot);

  RunState& state_;
  Transport& transport_;
  const int index_;
  std::vector<Slot> slots_;
  std::atomic<int64_t> in_flight_{0};

  // Between sender and receiver of the open loop.
  std::mutex mutex_;
  std::condition_variable slot_is_free_;
  std::vector<FreeSlot> free_slots_;  // guarded by mutex_: a ring that begins at first_free_
  size_t first_free_ = 0;             // guarded by mutex_
  size_t num_free_ = 0;               // guarded by mutex_

  // The sender's own.
  Histogram send_lag_;
  Histogram own_lag_;
  int64_t planned_ = 0;
  int64_t sent_ = 0;
  int64_t warmup_calls_ = 0;
  int64_t capped_ = 0;

  // The receiver's own.
  RunResult received_;
  int64_t last_done_ns_ = 0;
};

}  // namespace embedding::loadtest
