// What the process asks of the operating system: signals as events, descriptors enough.
#pragma once

#include <chrono>
#include <optional>

namespace embedding {

// Turns SIGTERM and SIGINT (kSignal) and SIGHUP (kReload) into events of one loop. Made before any other thread, which
// then inherit the signals' mask; ignores SIGPIPE and SIGUSR1, which would end the process otherwise.
class ProcessEvents {
 public:
  enum class Event { kSignal, kReload, kNotified, kTimeout };

  ProcessEvents();
  ~ProcessEvents();
  ProcessEvents(const ProcessEvents&) = delete;
  ProcessEvents& operator=(const ProcessEvents&) = delete;

  // The next event; waits for ever without a time. Signals come first.
  Event Wait(std::optional<std::chrono::steady_clock::time_point> until);
  // Wakes Wait, from any thread.
  void Notify();

 private:
  int signal_fd_;
  int notify_fd_;
};

// Raises the limit of open descriptors to what the process may have: each connection takes one, and gRPC 1.51 accepts
// no more for good once they have run out.
void RaiseDescriptorLimit();

// Ends the search for lock cycles in Abseil's mutexes, which gRPC takes dozens of times a call: Debian builds Abseil
// for debugging, where every lock is entered into a graph of the whole process, under a lock of its own. Without it a
// Lookup takes 12 to 16 % less CPU time. Before the first thread.
void StopWatchingLockOrder();

}  // namespace embedding
