#include "server/exec/worker_pool.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "server/exec/mutex.h"

namespace embedding {
namespace {

// What sched_setattr(2) takes. The C library has no name for it, and the kernel's header does not go with the C
// library's.
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // ns; here the slice
  uint64_t deadline;
  uint64_t period;
};

// Of the calling thread: Linux keeps a nice value for each. Weight 110 beside 1,024 of a thread at 0 (sched(7)). The
// weight alone says how much of a CPU is left, not how soon it is: a thread that wakes up may have to wait until the
// running one has used up its slice, some milliseconds. So the slice is made the shortest that Linux 6.12 and later
// take; older ones read over it.
void BecomeBackground() {
  constexpr int kNice = 10;
  const auto self = static_cast<id_t>(gettid());
  const int nice = std::max(kNice, getpriority(PRIO_PROCESS, self));
  constexpr uint64_t kSliceNs = 100'000;
  SchedAttributes attributes = {};
  attributes.size = sizeof(attributes);
  attributes.policy = SCHED_BATCH;  // never in the way of others when it wakes up itself
  attributes.nice = nice;
  attributes.runtime = kSliceNs;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  // Without effect where that is forbidden too, and then only slower for others.
  static_cast<void>(setpriority(PRIO_PROCESS, self, nice));
}

struct Job {
  std::function<void(int lane)> lane;
  std::function<void()> done;
  const int num_lanes;
  int next_lane = 0;  // guarded by the pool's mutex, as is lanes_left
  int lanes_left;

  Job(int lanes, std::function<void(int lane)> run, std::function<void()> finish)
      : lane(std::move(run)), done(std::move(finish)), num_lanes(lanes), lanes_left(lanes) {}
};

}  // namespace

// One queue, one mutex: a lane is some hundred microseconds of work, so handing it out costs little beside it.
struct WorkerPool::Impl {
  Mutex mutex;
  CondVar work_or_stop;
  std::deque<std::shared_ptr<Job>> queue ABSL_GUARDED_BY(mutex);  // jobs with lanes not yet handed out
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::thread> threads;

  void Work() {
    for (;;) {
      std::shared_ptr<Job> job;
      int lane;
      {
        MutexLock lock(&mutex);
        while (queue.empty() && !stopping) work_or_stop.Wait(&mutex);
        if (queue.empty()) return;
        job = queue.front();
        lane = job->next_lane++;
        if (job->next_lane == job->num_lanes) queue.pop_front();
      }
      job->lane(lane);
      {
        MutexLock lock(&mutex);
        if (--job->lanes_left > 0) continue;
      }
      if (job->done) job->done();
    }
  }
};

WorkerPool::WorkerPool(int num_threads, Priority priority) : impl_(std::make_unique<Impl>()) {
  assert(num_threads >= 1);
  impl_->threads.reserve(static_cast<size_t>(num_threads));
  for (int i = 0; i < num_threads; ++i) {
    impl_->threads.emplace_back([impl = impl_.get(), priority] {
      if (priority == Priority::kBackground) BecomeBackground();
      impl->Work();
    });
  }
}

WorkerPool::~WorkerPool() {
  {
    MutexLock lock(&impl_->mutex);
    impl_->stopping = true;
  }
  impl_->work_or_stop.SignalAll();
  for (std::thread& thread : impl_->threads) thread.join();
}

int WorkerPool::num_threads() const { return static_cast<int>(impl_->threads.size()); }

void WorkerPool::Submit(int num_lanes, std::function<void(int lane)> lane, std::function<void()> done) {
  assert(num_lanes >= 1);
  auto job = std::make_shared<Job>(num_lanes, std::move(lane), std::move(done));
  {
    MutexLock lock(&impl_->mutex);
    impl_->queue.push_back(std::move(job));
  }
  if (num_lanes == 1) {
    impl_->work_or_stop.Signal();
  } else {
    impl_->work_or_stop.SignalAll();
  }
}

void WorkerPool::RunAndWait(int num_lanes, const std::function<void(int lane)>& lane) {
  Mutex mutex;
  CondVar finished;
  bool is_finished = false;
  Submit(
      num_lanes, [&lane](int i) { lane(i); },
      [&] {
        // Signalled under the lock: the waiter owns the condition and may leave as soon as it holds the lock.
        MutexLock lock(&mutex);
        is_finished = true;
        finished.SignalAll();
      });
  MutexLock lock(&mutex);
  while (!is_finished) finished.Wait(&mutex);
}

}  // namespace embedding
