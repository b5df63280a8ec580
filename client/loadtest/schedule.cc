#include "client/loadtest/schedule.h"

#include <cmath>

namespace embedding::loadtest {

// The stream number keeps the gaps apart from the ids, which use small ones.
Schedule::Schedule(double rate, Arrivals arrivals, uint64_t seed)
    : gap_ns_(1e9 / rate), arrivals_(arrivals), random_(seed, ~uint64_t{0}) {}

int64_t Schedule::NextNs() {
  if (arrivals_ == Arrivals::kConstant) {
    // A product, not a sum of gaps: the rounding of a gap would add up to a wrong rate.
    return static_cast<int64_t>(static_cast<double>(next_index_++) * gap_ns_);
  }
  at_ns_ -= gap_ns_ * std::log1p(-random_.NextUnit());
  return static_cast<int64_t>(at_ns_);
}

}  // namespace embedding::loadtest
