#include <atomic>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/loadtest/load_test.h"
#include "client/loadtest/options.h"

namespace {

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may set it

void EndEarly(int) { stop.store(true); }

// The first signal ends the test with a report; a second one ends the program at once.
void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = EndEarly;
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace embedding::loadtest;
  try {
    const ParsedOptions parsed = ParseOptions(std::vector<std::string>(argv + 1, argv + argc));
    std::cout << parsed.out << std::flush;
    if (!parsed.err.empty()) std::cerr << "embedding-loadtest: " << parsed.err << std::endl;
    if (!parsed.options.has_value()) return parsed.exit_code;
    CatchSignals();
    // Debian's Abseil enters each lock that gRPC takes into a graph of the whole process: an eighth of the CPU time
    // here.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    return PerformLoadTest(*parsed.options, stop, std::cout, std::cerr);
  } catch (const std::exception& error) {
    std::cerr << "embedding-loadtest: " << error.what() << std::endl;
    return 1;
  }
}
