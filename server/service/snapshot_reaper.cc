#include "server/service/snapshot_reaper.h"

#include <utility>

#include "server/exec/mutex.h"
#include "server/exec/worker_pool.h"

namespace embedding {

// Held by every snapshot's owner, so it outlives the reaper.
struct SnapshotReaper::Shared {
  Mutex mutex;
  std::unique_ptr<WorkerPool> thread ABSL_GUARDED_BY(mutex) = std::make_unique<WorkerPool>(1);

  void Free(const Snapshot* snapshot) {
    {
      MutexLock lock(&mutex);
      if (thread != nullptr) {
        thread->Submit(1, [snapshot](int) { delete snapshot; }, {});
        return;
      }
    }
    delete snapshot;
  }
};

SnapshotReaper::SnapshotReaper() : shared_(std::make_shared<Shared>()) {}

SnapshotReaper::~SnapshotReaper() {
  std::unique_ptr<WorkerPool> thread;
  {
    MutexLock lock(&shared_->mutex);
    thread = std::move(shared_->thread);
  }
}

SnapshotPtr SnapshotReaper::Own(std::unique_ptr<const Snapshot> snapshot) {
  return SnapshotPtr(snapshot.release(), [shared = shared_](const Snapshot* left) { shared->Free(left); });
}

void SnapshotReaper::AwaitIdle() {
  WorkerPool* thread;
  {
    MutexLock lock(&shared_->mutex);
    thread = shared_->thread.get();
  }
  // Jobs run in their order, so what came before is done by then.
  thread->RunAndWait(1, [](int) {});
}

}  // namespace embedding
