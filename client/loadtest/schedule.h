// When the calls of an open loop are due, fixed before the first is sent.
#pragma once

#include <cstdint>

#include "client/loadtest/random.h"

namespace embedding::loadtest {

enum class Arrivals {
  kConstant,  // equal gaps
  kPoisson,   // exponential gaps: arrivals that know nothing of each other, as those of many callers
};

// The planned send times of calls 0, 1, 2, ..., in nanoseconds after the start of the run. They depend on rate,
// arrivals and seed alone, never on the server's answers nor on the number of connections. Not thread-safe.
class Schedule {
 public:
  // rate: calls per second, > 0. seed: used by kPoisson.
  Schedule(double rate, Arrivals arrivals, uint64_t seed);

  // The time of the next call; never falls.
  int64_t NextNs();

 private:
  const double gap_ns_;
  const Arrivals arrivals_;
  Random random_;
  uint64_t next_index_ = 0;
  double at_ns_ = 0.0;
};

}  // namespace embedding::loadtest
