#include <sys/prctl.h>
#include <time.h>

#include "client/loadtest/transport.h"

namespace embedding::loadtest {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

int64_t MonotonicClock::NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

void MonotonicClock::SleepUntil(int64_t time_ns) {
  // The slack belongs to the thread. The default lets the kernel wake it 50 us late, which would count as latency.
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(slack);
  const timespec until{.tv_sec = time_ns / kSecond, .tv_nsec = time_ns % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
    // A signal woke us: the time is absolute, so sleeping again loses nothing.
  }
}

}  // namespace embedding::loadtest
