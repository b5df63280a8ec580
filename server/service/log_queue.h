// Lines on their way to a descriptor that may not take them: a bounded queue and one writer thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "server/exec/mutex.h"

namespace embedding {

// Thread-safe. Push takes a short lock and never waits for the reader. Over max_bytes the oldest lines are dropped:
// what happened last explains more. The writer asks the descriptor whether it is ready before each write of at most
// PIPE_BUF bytes, so it does not hang in a full pipe and can be stopped. A line longer than that may be mixed with
// another process's on a shared pipe.
class LogQueue {
 public:
  // fd: not owned; looked at by each write, so it may be replaced by dup2. notice: the line (with its end) that tells
  // of so many dropped ones, written before the next line that gets through. on_drop: counts them, from any thread; may
  // be null.
  LogQueue(int fd, size_t max_bytes, std::function<std::string(int64_t)> notice, std::function<void(int64_t)> on_drop);
  // Drops what is queued. Call Flush first.
  ~LogQueue();

  // line: with its end.
  void Push(std::string line);
  // Waits until everything pushed so far is written or was dropped. False: not within the time.
  bool Flush(std::chrono::milliseconds timeout);

 private:
  void Run();
  // False: stopped meanwhile.
  bool WriteAll(const std::string& text);

  const int fd_;
  const size_t max_bytes_;
  const std::function<std::string(int64_t)> notice_;
  const std::function<void(int64_t)> on_drop_;

  std::atomic<bool> stop_{false};
  Mutex mutex_;
  CondVar work_;
  CondVar idle_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t untold_drops_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread writer_;
};

}  // namespace embedding
