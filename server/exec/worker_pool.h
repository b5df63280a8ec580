// The one place that starts threads of ours: a fixed pool that runs jobs made of lanes.
#pragma once

#include <functional>
#include <memory>

namespace embedding {

// Thread-safe. Jobs start in the order of Submit. A job with many lanes is shared by all idle workers; a job with one
// lane occupies one. Lanes of a job pull their work from a counter that the job owns, so that a lane which starts late
// finds nothing left to do and the job never waits for a busy worker.
class WorkerPool {
 public:
  // kBackground: the system gives the threads what others leave of the CPUs, and a tenth of what they want at the
  // least.
  enum class Priority { kNormal, kBackground };

  // num_threads >= 1.
  explicit WorkerPool(int num_threads, Priority priority = Priority::kNormal);
  // Runs every job submitted before, then joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int num_threads() const;

  // Queues a job: lane(i) once for each i in [0, num_lanes), then done() once, on the thread whose lane ended last.
  // num_lanes >= 1. Neither may block on another job of this pool.
  void Submit(int num_lanes, std::function<void(int lane)> lane, std::function<void()> done);

  // As Submit, and returns when done. Not to be called from a worker of this pool.
  void RunAndWait(int num_lanes, const std::function<void(int lane)>& lane);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding
