// Loads, swaps and unloads tables while calls are answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/exec/mutex.h"
#include "server/exec/worker_pool.h"
#include "server/service/metrics.h"
#include "server/service/snapshot.h"
#include "server/service/snapshot_maker.h"
#include "server/table/load_table.h"
#include "server/table/table_options.h"
#include "server/table/table_source.h"

namespace embedding {

// A version is numbered by its folder, or, where the path is a file, by counting: 1, then one more each time. Numbers
// of a name are not used again for other rows while the process lives, not even after the table was unloaded.
//
// One load runs at a time, on a thread of its own with workers in the background, so that several never need memory
// together; loads of other tables wait for it in their order, a second one of the same table is refused. A load that
// has begun is finished even if the one who asked has gone; one that waited is not begun then. Thread-safe.
class TableManager {
 public:
  struct Settings {
    TableRegistry* registry = nullptr;
    Metrics* metrics = nullptr;
    TableLimits limits;
    std::string table_root;  // what paths of an Order are relative to
    int threads = 1;         // of the server; half of them read a file
    SnapshotMaker::Progress progress;
    // Told when a table begins to serve (true) and when it is gone (false). May be empty.
    std::function<void(const std::string& table, bool serving)> health;
  };

  // What a caller asks to load.
  struct Order {
    std::string name;
    std::string path;  // relative to table_root; empty: the table's own again
    std::vector<std::pair<std::string, std::string>> options;
  };
  using Done = std::function<void(absl::StatusOr<TableRecord>)>;

  explicit TableManager(Settings settings);
  // Stops what runs.
  ~TableManager();

  // Before Open, on the calling thread: a table's first version. The loader's errors, with the whole path.
  absl::Status LoadFirst(const TableOptions& options, WorkerPool& pool);
  // From now on orders are taken; if a reload of all was asked for meanwhile, it begins.
  void Open();

  // Loads a table or a new version of one, and serves it. abandoned: asked when the load's turn comes. done is told
  // once, on this thread (a refused order) or the loader's: the table with its new version, after which no Acquire sees
  // an older one, or an error with details:
  // - INVALID_ARGUMENT: name, path or options;
  // - NOT_FOUND (TABLE_NOT_FOUND): no path, and no table of that name;
  // - FAILED_PRECONDITION (BAD_FILE, DIM_CHANGED, OVER_BUDGET, RELOAD_IN_PROGRESS): the old version goes on serving;
  // - UNAVAILABLE (LOADING before Open, SHUTTING_DOWN after Stop); CANCELLED: abandoned.
  // Messages name files as the caller does.
  void Load(const Order& order, std::function<bool()> abandoned, Done done);

  // Orders every table from its own path again. What becomes of each is logged.
  void ReloadAll();

  // Serves another version in memory. NOT_FOUND (TABLE_NOT_FOUND, VERSION_NOT_FOUND), INVALID_ARGUMENT.
  absl::StatusOr<TableRecord> SetServing(const std::string& name, uint64_t version);
  // Forgets a table (version 0: gives it without versions), or drops a version that does not serve. Errors as
  // SetServing; FAILED_PRECONDITION (VERSION_SERVING; RELOAD_IN_PROGRESS: the whole table).
  absl::StatusOr<TableRecord> Unload(const std::string& name, uint64_t version);

  // Ends the running load soon and refuses those that wait, and all that come.
  void Stop();

 private:
  // Where a table comes from.
  struct Origin {
    TableOptions options;       // as given; the path may be a folder, or relative to table_root
    bool beneath_root = false;  // the path is relative to table_root
    bool own_vocab = true;      // false: the caller of Load named it
  };
  // What is known of a name for as long as the process lives.
  struct History {
    uint64_t last_version = 0;
    std::map<uint64_t, std::string> fingerprints;  // of each version that has served
  };

  absl::StatusOr<Origin> OriginOf(const Order& order) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RunOrder(const Origin& origin);
  absl::StatusOr<TableSource> FindSource(const Origin& origin);
  absl::StatusOr<SnapshotPtr> Prepare(const TableSource& source, uint64_t version, WorkerPool& pool);
  absl::Status CheckAgainstServing(const TableSource& source, uint64_t version, const EmbeddingTable& table);
  // folder_version: 0 for a file.
  uint64_t NextVersion(const std::string& name, uint64_t folder_version);
  void Publish(const SnapshotPtr& snapshot, const Origin& origin);
  void NoteFailure(const std::string& name, uint64_t version, const absl::Status& status);
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  const Settings settings_;
  std::atomic<bool> stopping_{false};
  SnapshotMaker maker_;
  Mutex mutex_;  // held while what serves changes, so that registry, metrics and health change together
  std::map<std::string, Origin> origins_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, History> histories_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> busy_ ABSL_GUARDED_BY(mutex_);  // names that are ordered and not done
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool reload_on_open_ ABSL_GUARDED_BY(mutex_) = false;
  WorkerPool readers_;
  WorkerPool loader_;  // destroyed first: its orders use all of the above
};

}  // namespace embedding
