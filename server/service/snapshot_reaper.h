// Frees old versions on a thread that answers nobody.
#pragma once

#include <memory>

#include "server/service/snapshot.h"

namespace embedding {

// The last user of a version is some call, and giving back the memory of a large table takes the system many
// milliseconds: the call hands it over instead. Thread-safe.
class SnapshotReaper {
 public:
  SnapshotReaper();
  // Frees what was handed over so far; what falls later is freed where it falls.
  ~SnapshotReaper();
  SnapshotReaper(const SnapshotReaper&) = delete;
  SnapshotReaper& operator=(const SnapshotReaper&) = delete;

  // The snapshot, owned by its users together.
  SnapshotPtr Own(std::unique_ptr<const Snapshot> snapshot);

  // Returns when all that was handed over before is freed.
  void AwaitIdle();

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace embedding
