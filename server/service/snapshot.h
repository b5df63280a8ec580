// Table + index + version as one request sees them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/exec/mutex.h"
#include "server/search/metric.h"
#include "server/search/neighbour_index.h"
#include "server/table/embedding_table.h"

namespace embedding {

// Never changes after publication, so requests read it without a lock; each takes one shared_ptr and uses only that.
struct Snapshot {
  std::string name;
  uint64_t version = 1;
  std::unique_ptr<const EmbeddingTable> table;
  std::unique_ptr<const NeighbourIndex> index;  // borrows table; declared after it, destroyed before it
  Metric default_metric = Metric::kCosine;
  std::chrono::system_clock::time_point loaded_at;
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

// The tables being served. Thread-safe.
class TableRegistry {
 public:
  // names: those that will be loaded, in the order given; fixed for the registry's life.
  explicit TableRegistry(std::vector<std::string> names);

  // Makes a loaded table visible; its name is one of the registry's.
  void Publish(SnapshotPtr snapshot);

  // From now on every Acquire is UNAVAILABLE (SHUTTING_DOWN).
  void BeginShutdown();

  // The table of a name, version 0 = the serving one. Errors, with details: INVALID_ARGUMENT (empty name with several
  // tables: lists them, at most 10; malformed name), NOT_FOUND (TABLE_NOT_FOUND, VERSION_NOT_FOUND), UNAVAILABLE
  // (LOADING: "no table loaded yet" or the table that is not; SHUTTING_DOWN: "server is shutting down").
  absl::StatusOr<SnapshotPtr> Acquire(absl::string_view name, uint64_t version) const;

  // All loaded tables by name. UNAVAILABLE as above; LOADING until all are loaded.
  absl::StatusOr<std::vector<SnapshotPtr>> List() const;

  bool all_loaded() const;

 private:
  mutable Mutex mutex_;
  const std::vector<std::string> names_;
  std::map<std::string, SnapshotPtr, std::less<>> loaded_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace embedding
