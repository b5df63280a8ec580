#include "server/service/log_queue.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace embedding {
namespace {

// How often a writer whose reader does not read looks whether it should stop.
constexpr int kStallPollMs = 50;

}  // namespace

LogQueue::LogQueue(int fd, size_t max_bytes, std::function<std::string(int64_t)> notice,
                   std::function<void(int64_t)> on_drop)
    : fd_(fd), max_bytes_(max_bytes), notice_(std::move(notice)), on_drop_(std::move(on_drop)) {
  // The thread inherits the mask: signals of the process go elsewhere, and a pipe without a reader gives EPIPE instead
  // of SIGPIPE, which is sent to the thread that writes.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  writer_ = std::thread(&LogQueue::Run, this);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

LogQueue::~LogQueue() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  work_.SignalAll();
  writer_.join();
}

void LogQueue::Push(std::string line) {
  int64_t dropped = 0;
  {
    MutexLock lock(&mutex_);
    while (!lines_.empty() && bytes_ + line.size() > max_bytes_) {
      bytes_ -= lines_.front().size();
      lines_.pop_front();
      ++dropped;
    }
    bytes_ += line.size();
    lines_.push_back(std::move(line));
    untold_drops_ += dropped;
  }
  work_.Signal();
  if (dropped > 0 && on_drop_) on_drop_(dropped);
}

bool LogQueue::Flush(std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(&mutex_);
  while (!lines_.empty() || writing_) {
    if (!idle_.WaitUntil(&mutex_, until)) return lines_.empty() && !writing_;
  }
  return true;
}

void LogQueue::Run() {
  while (true) {
    std::string text;
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      if (lines_.empty()) idle_.SignalAll();
      while (lines_.empty() && !stop_) work_.Wait(&mutex_);
      if (stop_) return;
      if (untold_drops_ > 0) text = notice_(std::exchange(untold_drops_, 0));
      // Whole lines, as many as one write takes.
      do {
        bytes_ -= lines_.front().size();
        text += lines_.front();
        lines_.pop_front();
      } while (!lines_.empty() && text.size() + lines_.front().size() <= PIPE_BUF);
      writing_ = true;
    }
    if (!WriteAll(text)) return;
  }
}

bool LogQueue::WriteAll(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    pollfd ready{fd_, POLLOUT, 0};
    const int polled = poll(&ready, 1, kStallPollMs);
    if (stop_) return false;
    if (polled == 0 || (polled < 0 && errno == EINTR)) continue;
    const ssize_t written = write(fd_, text.data() + done, std::min<size_t>(text.size() - done, PIPE_BUF));
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR && errno != EAGAIN) {
      // Closed, no reader, disk full: this text is lost, the next may get through.
      if (on_drop_) on_drop_(std::count(text.begin() + static_cast<ptrdiff_t>(done), text.end(), '\n'));
      return true;
    }
  }
  return true;
}

}  // namespace embedding
