// What --fail-if says.
#pragma once

#include <string>
#include <vector>

#include "client/loadtest/runner.h"

namespace embedding::loadtest {

// A condition under which a load test counts as failed, such as p99>2ms.
struct Threshold {
  enum class Metric { kPercentile, kMax, kMean, kErrors, kErrorShare, kRate };
  Metric metric = Metric::kMax;
  double quantile = 0;  // of kPercentile
  bool above = true;    // the comparison is > or >=
  bool or_equal = false;
  double bound = 0;  // nanoseconds; errors: a count; kErrorShare: in [0, 1]; kRate: calls answered per second
  std::string text;  // as it was given
};

// Parses METRIC OP VALUE. METRIC: p50 p90 p99 p99.9 max mean (VALUE with unit us, ms or s), errors (a count, or a share
// such as 1%), rate (answered calls per second, no unit). OP: > >= < <=. White space is allowed around each.
// On failure returns false and says in *error what was given and what is allowed.
bool ParseThreshold(const std::string& text, Threshold* threshold, std::string* error);

// The value of the threshold's metric in a result. Times are latency in the open loop and service time in the closed.
double ValueOf(const Threshold& threshold, const RunResult& result);
// True when the condition holds, so that the test has failed.
bool Holds(const Threshold& threshold, const RunResult& result);

}  // namespace embedding::loadtest
