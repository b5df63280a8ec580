#include "server/process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>

#include "absl/synchronization/mutex.h"

namespace embedding {

ProcessEvents::ProcessEvents() {
  for (const int ignored : {SIGPIPE, SIGUSR1}) std::signal(ignored, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  notify_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

ProcessEvents::~ProcessEvents() {
  close(signal_fd_);
  close(notify_fd_);
}

ProcessEvents::Event ProcessEvents::Wait(std::optional<std::chrono::steady_clock::time_point> until) {
  for (;;) {
    int timeout_ms = -1;
    if (until.has_value()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
      timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
    }
    std::array<pollfd, 2> fds = {{{signal_fd_, POLLIN, 0}, {notify_fd_, POLLIN, 0}}};
    const int ready = poll(fds.data(), fds.size(), timeout_ms);
    if (ready == 0) return Event::kTimeout;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      return info.ssi_signo == SIGHUP ? Event::kReload : Event::kSignal;
    }
    uint64_t count = 0;
    if (read(notify_fd_, &count, sizeof(count)) == static_cast<ssize_t>(sizeof(count))) return Event::kNotified;
  }
}

void ProcessEvents::Notify() {
  const uint64_t one = 1;
  // It can only fail when the counter is full, and then the loop is being woken already.
  static_cast<void>(!write(notify_fd_, &one, sizeof(one)));
}

void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void StopWatchingLockOrder() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace embedding
