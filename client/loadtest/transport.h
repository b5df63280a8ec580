// What the runner needs of the world: a clock and one connection that carries calls. Behind interfaces, so that the
// runner's numbers can be tested in simulated time.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace embedding::loadtest {

// Times are nanoseconds of a clock that never steps back; their zero means nothing.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() = 0;
  // Returns at or after the given time. Thread-safe.
  virtual void SleepUntil(int64_t time_ns) = 0;
};

// CLOCK_MONOTONIC, slept on in absolute time with a timer slack of 1 ns instead of the usual 50 us.
class MonotonicClock : public Clock {
 public:
  int64_t NowNs() override;
  void SleepUntil(int64_t time_ns) override;
};

enum class Verdict {
  kUnchecked,  // the answer has the right shape; its values were not compared
  kVerified,   // every value was compared with the reference and is right
  kMalformed,  // not what the contract promises for this request
  kMismatch,   // another value than the reference
};

// How a call ended.
struct CallDone {
  uint32_t slot = 0;
  int code = 0;         // gRPC status code, 0 = OK
  std::string message;  // of the status, or why the answer is not accepted; empty for a good answer
  int64_t done_ns = 0;  // taken as soon as the answer was there, before it was checked
  int64_t bytes = 0;    // of the answer's message
  Verdict verdict = Verdict::kUnchecked;
};

// One connection. Prepare, Start and FinishSending are called by one thread at a time, Next by one thread; the two may
// be different threads.
class Transport {
 public:
  static constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  enum class NextResult { kDone, kTimeout, kClosed };

  virtual ~Transport() = default;
  // Builds call number `call` in `slot`, which is free. not_before_ns: when it will be started; deadlines count from
  // there.
  virtual void Prepare(uint32_t slot, uint64_t call, int64_t not_before_ns) = 0;
  // Sends the prepared call.
  virtual void Start(uint32_t slot) = 0;
  // Nothing is prepared or started after this.
  virtual void FinishSending() = 0;
  // Waits for the end of any started call (kDone), until the given time (kTimeout), or until FinishSending was called
  // and every started call has been delivered (kClosed).
  virtual NextResult Next(int64_t until_ns, CallDone* done) = 0;
  // Bytes of the request messages prepared so far. Called when nothing else runs.
  virtual int64_t bytes_sent() const = 0;
};

}  // namespace embedding::loadtest
