#include "server/service/table_manager.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/status_codec.h"
#include "server/service/log.h"
#include "server/service/request_errors.h"
#include "server/table/quote.h"
#include "server/table/table_memory.h"
#include "server/table/table_root.h"

namespace embedding {
namespace {

double UnixSeconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

TableMetrics MetricsOf(const Snapshot& snapshot) {
  const EmbeddingTable& table = *snapshot.table;
  TableMetrics metrics;
  metrics.name = snapshot.name;
  metrics.version = static_cast<int64_t>(snapshot.version);
  metrics.rows = table.num_rows();
  metrics.dim = table.dim();
  metrics.size_bytes = table.size_bytes();
  metrics.load_seconds = table.load_seconds();
  metrics.loaded_timestamp_seconds = UnixSeconds(snapshot.loaded_at);
  metrics.dtype = std::string(DtypeName(table.dtype()));
  metrics.format = std::string(TableFormatName(table.format()));
  metrics.fingerprint = table.fingerprint();
  if (snapshot.index != nullptr && snapshot.index->graph() != nullptr) {
    metrics.index_size_bytes = snapshot.index->graph()->size_bytes;
  }
  return metrics;
}

absl::Status Refused(absl::string_view reason, absl::string_view message,
                     std::vector<std::pair<std::string, std::string>> metadata) {
  return ErrorWithDetails(absl::StatusCode::kFailedPrecondition, message,
                          {std::string(reason), std::move(metadata), {}});
}

absl::Status ShuttingDown() {
  return ErrorWithDetails(absl::StatusCode::kUnavailable, "server is shutting down", {"SHUTTING_DOWN", {}, {}});
}

absl::Status InProgress(const std::string& name) {
  return Refused("RELOAD_IN_PROGRESS", absl::StrCat("a reload of table \"", name, "\" is in progress"),
                 {{"table", name}});
}

// Of the error of a load: that its end was asked for is told as such.
absl::Status ToRpcStatus(const std::string& name, const absl::Status& status, const std::string& message) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return InvalidField("options", message);
    case absl::StatusCode::kCancelled:
      return ShuttingDown();
    case absl::StatusCode::kResourceExhausted: {
      std::vector<std::pair<std::string, std::string>> metadata = {{"table", name}};
      if (const std::optional<OverBudget> over = OverBudgetOf(status); over.has_value()) {
        metadata.emplace_back("needed_bytes", absl::StrCat(over->needed_bytes));
        metadata.emplace_back("used_bytes", absl::StrCat(over->used_bytes));
        metadata.emplace_back("allowed_bytes", absl::StrCat(over->allowed_bytes));
      }
      return Refused("OVER_BUDGET", message, std::move(metadata));
    }
    case absl::StatusCode::kDataLoss:
      return Refused("BAD_FILE", message, {{"table", name}});
    default:
      return status;  // with details already, or a bug
  }
}

// "a/b/c" -> "a/b/"; "" where there is no folder.
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// The folder that a file lies in, as a path that can be opened.
std::string OwnFolder(const std::string& path) {
  const std::string folder = FolderOf(path);
  return folder.empty() ? "./" : folder;
}

// As messages show a path.
std::string InMessage(const std::string& path) { return EscapedText(path, kMaxFileNameBytes); }

absl::Status CheckName(const std::string& name) {
  if (IsTableName(name)) return absl::OkStatus();
  return InvalidField("name", absl::StrCat("name is \"", Escaped(name), "\", must be [A-Za-z0-9_.-]{1,64}"));
}

}  // namespace

TableManager::TableManager(Settings settings)
    : settings_(std::move(settings)),
      maker_(settings_.registry, settings_.limits, settings_.progress, [this] { return stopping(); }),
      // Half of them, so that calls find a CPU that no load holds.
      readers_(std::max(1, settings_.threads / 2), WorkerPool::Priority::kBackground),
      loader_(1, WorkerPool::Priority::kBackground) {}

TableManager::~TableManager() { Stop(); }

void TableManager::Stop() { stopping_.store(true); }

absl::Status TableManager::LoadFirst(const TableOptions& options, WorkerPool& pool) {
  absl::StatusOr<TableSource> source = FindTableSource(options);
  if (!source.ok()) return source.status();
  const absl::StatusOr<SnapshotPtr> snapshot = Prepare(*source, NextVersion(options.name, source->version), pool);
  if (!snapshot.ok()) return snapshot.status();
  Publish(*snapshot, Origin{options});
  return absl::OkStatus();
}

void TableManager::Open() {
  bool reload;
  {
    MutexLock lock(&mutex_);
    open_ = true;
    reload = reload_on_open_;
  }
  if (reload) ReloadAll();
}

absl::StatusOr<TableManager::Origin> TableManager::OriginOf(const Order& order) {
  if (absl::Status s = CheckName(order.name); !s.ok()) return s;
  Origin origin;
  std::vector<std::pair<std::string, std::string>> given = order.options;
  if (order.path.empty()) {
    const auto it = origins_.find(order.name);
    if (it == origins_.end()) {
      return ErrorWithDetails(absl::StatusCode::kNotFound,
                              absl::StrCat("table \"", order.name, "\" does not exist: give the path to load it from"),
                              {"TABLE_NOT_FOUND", {{"table", order.name}}, {}});
    }
    origin = it->second;
    for (const auto& [key, value] : origin.options.given) {
      const bool replaced =
          std::any_of(given.begin(), given.end(), [&key = key](const auto& option) { return option.first == key; });
      if (!replaced) given.emplace_back(key, value);
    }
  } else {
    if (absl::Status s = CheckFileName(order.path); !s.ok()) return InvalidField("path", s.message());
    origin.options.path = order.path;
    origin.beneath_root = true;
  }
  absl::StatusOr<TableOptions> options = MakeTableOptions(order.name, origin.options.path, given);
  if (!options.ok()) return InvalidField("options", options.status().message());
  for (const auto& [key, value] : order.options) {
    if (key != "vocab") continue;
    origin.own_vocab = false;
    if (absl::Status s = CheckFileName(value); !s.ok()) return InvalidField("options.vocab", s.message());
  }
  origin.options = *std::move(options);
  return origin;
}

void TableManager::Load(const Order& order, std::function<bool()> abandoned, Done done) {
  absl::StatusOr<Origin> origin;
  {
    MutexLock lock(&mutex_);
    origin = OriginOf(order);
    if (stopping()) {
      origin = ShuttingDown();
    } else if (!open_) {
      origin =
          ErrorWithDetails(absl::StatusCode::kUnavailable, "the tables are still being loaded", {"LOADING", {}, {}});
    } else if (origin.ok() && !busy_.insert(order.name).second) {
      origin = InProgress(order.name);
    }
  }
  if (!origin.ok()) return done(origin.status());
  loader_.Submit(1,
                 [this, name = order.name, origin = *std::move(origin), abandoned = std::move(abandoned),
                  done = std::move(done)](int) {
                   absl::Status status = absl::OkStatus();
                   if (stopping()) {
                     status = ShuttingDown();
                   } else if (abandoned != nullptr && abandoned()) {
                     status = absl::CancelledError("the caller had gone before the load began");
                   } else {
                     status = RunOrder(origin);
                   }
                   // Before another order may change it.
                   absl::StatusOr<TableRecord> record =
                       status.ok() ? settings_.registry->Describe(name, 0) : absl::StatusOr<TableRecord>(status);
                   {
                     MutexLock lock(&mutex_);
                     busy_.erase(name);
                   }
                   done(std::move(record));
                 },
                 {});
}

absl::StatusOr<TableSource> TableManager::FindSource(const Origin& origin) {
  TableOptions options = origin.options;
  if (origin.beneath_root) {
    absl::StatusOr<std::string> path = ResolveBeneath(settings_.table_root, options.path);
    if (!path.ok()) return path.status();
    options.path = *std::move(path);
  }
  // Links in a folder must not lead out either; those that do tell nothing of where they lead.
  LinkPredicate may_follow;
  if (origin.beneath_root) {
    may_follow = [this](const std::string& link) { return CheckBeneath(settings_.table_root, link, link).ok(); };
  }
  absl::StatusOr<TableSource> source = FindTableSource(options, may_follow);
  if (!source.ok()) return source.status();
  if (origin.beneath_root) {
    if (absl::Status s = CheckBeneath(settings_.table_root, source->options.path, origin.options.path); !s.ok())
      return s;
  }
  const std::string& vocab = source->options.vocab;
  if (!vocab.empty() && (origin.beneath_root || !origin.own_vocab)) {
    const std::string root = origin.beneath_root ? settings_.table_root : OwnFolder(source->options.path);
    absl::StatusOr<std::string> real = RealPathBeneath(root, VocabularyPath(source->options), vocab);
    if (!real.ok()) return real.status();
    // What was looked at is what is opened: a link that is changed meanwhile leads nowhere else.
    if (origin.beneath_root && (*real)[0] == '/') source->options.vocab = *std::move(real);
  }
  return source;
}

// Called on the loader's thread alone, or before Open.
absl::Status TableManager::RunOrder(const Origin& origin) {
  const std::string& name = origin.options.name;
  // Paths on the server become what the caller knows of them.
  std::vector<std::pair<std::string, std::string>> shown;
  const auto refuse = [&](uint64_t version, const absl::Status& status) {
    const std::string message = absl::StrReplaceAll(status.message(), shown);
    NoteFailure(name, version, status);
    if (!absl::IsCancelled(status)) {
      settings_.registry->SetFailed(name, VersionInfo{version, VersionState::kFailed, message});
    }
    return ToRpcStatus(name, status, message);
  };
  if (origin.beneath_root) {
    const absl::StatusOr<std::string> real = ResolveBeneath(settings_.table_root, origin.options.path);
    if (real.ok()) shown.emplace_back(InMessage(*real), InMessage(origin.options.path));
    if (const std::string root = RealFolder(settings_.table_root); !root.empty()) {
      shown.emplace_back(InMessage(root) + "/", "");
    }
  } else if (const std::string folder = FolderOf(origin.options.path); !folder.empty()) {
    shown.emplace_back(InMessage(folder), "");
  }
  const absl::StatusOr<TableSource> source = FindSource(origin);
  if (!source.ok()) {
    if (absl::IsInvalidArgument(source.status())) {
      NoteFailure(name, 0, source.status());
      return InvalidField("path", source.status().message());
    }
    return refuse(NextVersion(name, 0), source.status());
  }
  const uint64_t version = NextVersion(name, source->version);
  settings_.registry->SetLoading(name, version);
  const absl::StatusOr<SnapshotPtr> snapshot = Prepare(*source, version, readers_);
  settings_.registry->SetLoading(name, std::nullopt);
  if (!snapshot.ok()) return refuse(version, snapshot.status());
  settings_.registry->SetFailed(name, std::nullopt);
  Publish(*snapshot, origin);
  return absl::OkStatus();
}

uint64_t TableManager::NextVersion(const std::string& name, uint64_t folder_version) {
  if (folder_version != 0) return folder_version;
  MutexLock lock(&mutex_);
  const auto it = histories_.find(name);
  return it == histories_.end() ? 1 : it->second.last_version + 1;
}

absl::Status TableManager::CheckAgainstServing(const TableSource& source, uint64_t version,
                                               const EmbeddingTable& table) {
  {
    MutexLock lock(&mutex_);
    const History& history = histories_[source.options.name];
    const auto it = history.fingerprints.find(version);
    if (it != history.fingerprints.end() && it->second != table.fingerprint()) {
      return WithPath(source.options.path,
                      absl::DataLossError(absl::StrCat(
                          "version ", version, " was loaded before with other rows or keys (fingerprint ", it->second,
                          ", now ", table.fingerprint(), "): give what is new a higher number")));
    }
  }
  const absl::StatusOr<SnapshotPtr> serving = settings_.registry->Acquire(source.options.name, 0);
  if (!serving.ok() || source.options.allow_dim_change) return absl::OkStatus();
  const EmbeddingTable& old_table = *(*serving)->table;
  if (old_table.dim() == table.dim()) return absl::OkStatus();
  return Refused(
      "DIM_CHANGED",
      absl::StrCat("table \"", source.options.name, "\" is ", old_table.num_rows(), " x ", old_table.dim(),
                   ", the new one ", table.num_rows(), " x ", table.dim(),
                   ": another width breaks callers; allow-dim-change=true permits it"),
      {{"table", source.options.name}, {"dim", absl::StrCat(old_table.dim())}, {"new_dim", absl::StrCat(table.dim())}});
}

absl::StatusOr<SnapshotPtr> TableManager::Prepare(const TableSource& source, uint64_t version, WorkerPool& pool) {
  const auto check = [&](const EmbeddingTable& table) { return CheckAgainstServing(source, version, table); };
  return maker_.Make(source, version, check, pool);
}

void TableManager::Publish(const SnapshotPtr& snapshot, const Origin& origin) {
  const std::string& name = snapshot->name;
  const EmbeddingTable& table = *snapshot->table;
  {
    MutexLock lock(&mutex_);
    const bool is_reload = origins_.contains(name);
    origins_[name] = origin;
    History& history = histories_[name];
    history.last_version = std::max(history.last_version, snapshot->version);
    history.fingerprints[snapshot->version] = table.fingerprint();
    settings_.metrics->SetTable(MetricsOf(*snapshot));
    if (is_reload) settings_.metrics->OnReload(name, /*ok=*/true, UnixSeconds(snapshot->loaded_at));
    settings_.registry->Publish(snapshot);
    if (!is_reload && settings_.health != nullptr) settings_.health(name, true);
  }
  Log(LogLevel::kInfo, "table loaded",
      {{"table", name},
       {"version", snapshot->version},
       {"rows", table.num_rows()},
       {"dim", table.dim()},
       {"dtype", std::string(DtypeName(table.dtype()))},
       {"size_bytes", table.size_bytes()},
       {"code_bytes", snapshot->index->code_bytes()},
       {"index", std::string(snapshot->index->graph() != nullptr ? "hnsw" : "")},
       {"index_bytes", snapshot->index->graph() != nullptr ? snapshot->index->graph()->size_bytes : 0},
       {"format", std::string(TableFormatName(table.format()))},
       {"keys", table.vocabulary() != nullptr},
       {"rows_without_key", table.vocabulary() != nullptr ? table.vocabulary()->rows_without_key() : table.num_rows()},
       {"duplicate_keys", table.vocabulary() != nullptr ? table.vocabulary()->duplicate_keys() : 0},
       {"fingerprint", table.fingerprint()},
       {"seconds", table.load_seconds()}});
  if (table.metadata_bytes_left_out() > 0) {
    Log(LogLevel::kWarning, "metadata of the file is longer than is served, it is left out",
        {{"table", name},
         {"bytes", table.metadata_bytes_left_out()},
         {"limit_bytes", static_cast<int64_t>(kMaxMetadataBytes)}});
  }
}

void TableManager::NoteFailure(const std::string& name, uint64_t version, const absl::Status& status) {
  if (absl::IsCancelled(status)) return;
  settings_.metrics->OnReload(name, /*ok=*/false, 0);
  Log(LogLevel::kError, "load failed",
      {{"table", name}, {"version", version}, {"reason", std::string(status.message())}});
}

void TableManager::ReloadAll() {
  std::vector<std::string> names;
  {
    MutexLock lock(&mutex_);
    if (!open_) {
      reload_on_open_ = true;
      return;
    }
    for (const auto& [name, origin] : origins_) names.push_back(name);
  }
  Log(LogLevel::kInfo, "reloading all tables", {{"tables", names.size()}});
  for (const std::string& name : names) {
    Load({name, "", {}}, nullptr, [name](const absl::StatusOr<TableRecord>& record) {
      if (DetailsOf(record.status()).reason != "RELOAD_IN_PROGRESS") return;  // all else is logged where it happens
      Log(LogLevel::kWarning, "not reloaded", {{"table", name}, {"reason", std::string(record.status().message())}});
    });
  }
}

absl::StatusOr<TableRecord> TableManager::SetServing(const std::string& name, uint64_t version) {
  if (absl::Status s = CheckName(name); !s.ok()) return s;
  if (version == 0) return InvalidField("version", "version is 0, must name a version in memory");
  {
    MutexLock lock(&mutex_);
    const absl::StatusOr<SnapshotPtr> snapshot = settings_.registry->SetServing(name, version);
    if (!snapshot.ok()) return snapshot.status();
    settings_.metrics->SetTable(MetricsOf(**snapshot));
  }
  Log(LogLevel::kInfo, "serving version set", {{"table", name}, {"version", version}});
  return settings_.registry->Describe(name, 0);
}

absl::StatusOr<TableRecord> TableManager::Unload(const std::string& name, uint64_t version) {
  if (absl::Status s = CheckName(name); !s.ok()) return s;
  if (version != 0) {
    if (absl::Status s = settings_.registry->Drop(name, version); !s.ok()) return s;
    Log(LogLevel::kInfo, "version unloaded", {{"table", name}, {"version", version}});
    absl::StatusOr<TableRecord> record = settings_.registry->Describe(name, 0);
    if (record.ok()) {
      std::erase_if(record->versions, [&](const VersionInfo& known) {
        return known.version == version && known.state == VersionState::kDraining;
      });
    }
    return record;
  }
  absl::StatusOr<TableRecord> record;
  {
    MutexLock lock(&mutex_);
    record = settings_.registry->Describe(name, 0);
    if (!record.ok()) return record.status();
    if (busy_.contains(name)) return InProgress(name);
    if (absl::Status s = settings_.registry->Remove(name); !s.ok()) return s;
    origins_.erase(name);
    settings_.metrics->RemoveTable(name);
    if (settings_.health != nullptr) settings_.health(name, false);
  }
  Log(LogLevel::kInfo, "table unloaded", {{"table", name}});
  record->serving_version = 0;
  record->versions.clear();
  return record;
}

}  // namespace embedding
