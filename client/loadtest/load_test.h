// One load test from start to end: asks the server what it holds, runs, checks, reports.
#pragma once

#include <atomic>
#include <ostream>

#include "client/loadtest/options.h"

namespace embedding::loadtest {

// Returns the process's exit code. out: the report; err: progress and complaints, one line each. Set `stop` to end the
// test early; the report then covers what was measured.
int PerformLoadTest(const LoadTestOptions& options, const std::atomic<bool>& stop, std::ostream& out,
                    std::ostream& err);

}  // namespace embedding::loadtest
