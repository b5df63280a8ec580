// Table + index + version as one request sees them, and the versions that are in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
// A server's own frees its memory on a thread that answers nobody: see snapshot_reaper.h.
using SnapshotPtr = std::shared_ptr<const Snapshot>;

enum class VersionState : uint8_t { kLoading, kAvailable, kDraining, kFailed };

struct VersionInfo {
  uint64_t version = 0;
  VersionState state = VersionState::kAvailable;
  std::string reason;  // of kFailed: why it was refused

  friend bool operator==(const VersionInfo&, const VersionInfo&) = default;
};

// One version of a table, and what is known of the others at that moment.
struct TableRecord {
  SnapshotPtr snapshot;
  uint64_t serving_version = 0;
  std::vector<VersionInfo> versions;  // ascending
};

// The tables being served, each in one version or more. Thread-safe; what a request asks is a look into a map under a
// mutex.
class TableRegistry {
 public:
  // names: those that will be loaded, in the order given. keep_versions (>= 1): versions of a table that stay in
  // memory, the serving one counted.
  explicit TableRegistry(std::vector<std::string> names, int keep_versions = 2);

  // Serves the snapshot from now on: every Acquire that begins after this returns sees it. It takes the place of one
  // with the same version. Versions beyond keep_versions are dropped, the one that last served longest ago first: after
  // a roll-back, the one that is known to be good stays. Adds the name if it is new.
  void Publish(SnapshotPtr snapshot);
  // Serves another version that is in memory, and gives it. NOT_FOUND (TABLE_NOT_FOUND, VERSION_NOT_FOUND).
  absl::StatusOr<SnapshotPtr> SetServing(absl::string_view name, uint64_t version);
  // Drops a version that is not the serving one. NOT_FOUND as above, FAILED_PRECONDITION (VERSION_SERVING).
  absl::Status Drop(absl::string_view name, uint64_t version);
  // Forgets a table. NOT_FOUND (TABLE_NOT_FOUND).
  absl::Status Remove(absl::string_view name);
  // The versions in memory that do not serve, the one that served longest ago first.
  std::vector<SnapshotPtr> Idle(absl::string_view name) const;

  // What is told beside the versions in memory; nullopt: none. Without effect for a name that is not loaded.
  void SetLoading(absl::string_view name, std::optional<uint64_t> version);
  // The version that was refused last.
  void SetFailed(absl::string_view name, std::optional<VersionInfo> failed);

  // From now on every Acquire is UNAVAILABLE (SHUTTING_DOWN).
  void BeginShutdown();

  // The table of a name, version 0 = the serving one, else one that is in memory. Errors, with details:
  // INVALID_ARGUMENT (empty name with several tables: lists them, at most 10; malformed name), NOT_FOUND
  // (TABLE_NOT_FOUND, VERSION_NOT_FOUND), UNAVAILABLE (LOADING: "no table loaded yet" or the table that is not;
  // SHUTTING_DOWN: "server is shutting down").
  absl::StatusOr<SnapshotPtr> Acquire(absl::string_view name, uint64_t version) const;

  // As Acquire, with the other versions.
  absl::StatusOr<TableRecord> Describe(absl::string_view name, uint64_t version) const;

  // The serving version of all loaded tables, by name. UNAVAILABLE as above; LOADING until all are loaded.
  absl::StatusOr<std::vector<TableRecord>> List() const;

  bool all_loaded() const;

 private:
  struct Loaded {
    SnapshotPtr snapshot;
    uint64_t served_at = 0;  // when it last began to serve, on the registry's own clock
  };
  struct Table {
    SnapshotPtr serving;
    std::map<uint64_t, Loaded> versions;  // in memory, the serving one among them
    // Dropped, and perhaps still used by calls that began before.
    std::vector<std::pair<uint64_t, std::weak_ptr<const Snapshot>>> dropped;
    std::optional<uint64_t> loading;
    std::optional<VersionInfo> failed;
  };

  const Table* Find(absl::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Table* Find(absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why a name has no table.
  absl::Status NoTable(absl::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TableRecord RecordOf(const Table& table, SnapshotPtr snapshot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a version out of a table; what it gives is destroyed without the lock.
  static SnapshotPtr TakeOut(Table& table, uint64_t version);

  const int keep_versions_;
  mutable Mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Table, std::less<>> tables_ ABSL_GUARDED_BY(mutex_);  // those that are loaded
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace embedding
