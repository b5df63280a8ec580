#include "server/service/snapshot.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/status_codec.h"
#include "server/service/request_errors.h"
#include "server/table/table_options.h"

namespace embedding {
namespace {

// Names that a message lists at most.
constexpr size_t kListedNames = 10;

std::string ListNames(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kListedNames; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ", ", "\"", Escaped(names[i]), "\"");
  }
  if (names.size() > kListedNames) absl::StrAppend(&list, " and ", names.size() - kListedNames, " more");
  return list;
}

absl::Status Unavailable(absl::string_view reason, absl::string_view message) {
  return ErrorWithDetails(absl::StatusCode::kUnavailable, message, {std::string(reason), {}, {}});
}

absl::Status ShuttingDown() { return Unavailable("SHUTTING_DOWN", "server is shutting down"); }

absl::Status NoVersion(const Snapshot& serving, uint64_t version, const std::vector<uint64_t>& in_memory) {
  std::string message =
      absl::StrCat("table \"", serving.name, "\" serves version ", serving.version, ", not ", version);
  if (in_memory.size() > 1) absl::StrAppend(&message, "; in memory: ", absl::StrJoin(in_memory, ", "));
  return ErrorWithDetails(absl::StatusCode::kNotFound, message,
                          {"VERSION_NOT_FOUND",
                           {{"table", serving.name},
                            {"version", absl::StrCat(version)},
                            {"serving_version", absl::StrCat(serving.version)}},
                           {}});
}

template <typename Versions>
std::vector<uint64_t> NumbersOf(const Versions& versions) {
  std::vector<uint64_t> numbers;
  for (const auto& [version, loaded] : versions) numbers.push_back(version);
  return numbers;
}

// The table of a name; an empty one means the only table.
template <typename Tables>
auto* FindIn(Tables& tables, size_t num_names, absl::string_view name) {
  const auto it =
      name.empty() && num_names == 1 ? tables.begin() : tables.find(std::string_view(name.data(), name.size()));
  return it == tables.end() ? nullptr : &it->second;
}

}  // namespace

TableRegistry::TableRegistry(std::vector<std::string> names, int keep_versions)
    : keep_versions_(keep_versions), names_(std::move(names)) {
  assert(keep_versions >= 1);
}

const TableRegistry::Table* TableRegistry::Find(absl::string_view name) const {
  return FindIn(tables_, names_.size(), name);
}

TableRegistry::Table* TableRegistry::Find(absl::string_view name) { return FindIn(tables_, names_.size(), name); }

absl::Status TableRegistry::NoTable(absl::string_view name) const {
  if (!name.empty() && !IsTableName(name)) {
    return InvalidField("table.name",
                        absl::StrCat("table.name is \"", Escaped(name), "\", must be [A-Za-z0-9_.-]{1,64}"));
  }
  if (name.empty() && names_.size() > 1) {
    return InvalidField("table.name", absl::StrCat("table.name is empty, must name one of the ", names_.size(),
                                                   " tables: ", ListNames(names_)));
  }
  const bool known = std::find(names_.begin(), names_.end(), std::string(name)) != names_.end();
  if (!known && (!name.empty() || names_.empty())) {
    const std::string message = names_.empty()
                                    ? "no table is served"
                                    : absl::StrCat("table \"", name, "\" does not exist; tables: ", ListNames(names_));
    return ErrorWithDetails(absl::StatusCode::kNotFound, message,
                            {"TABLE_NOT_FOUND", {{"table", std::string(name)}}, {}});
  }
  return Unavailable("LOADING", tables_.empty() ? std::string("no table loaded yet")
                                                : absl::StrCat("table \"", name, "\" is not loaded yet"));
}

SnapshotPtr TableRegistry::TakeOut(Table& table, uint64_t version) {
  const auto it = table.versions.find(version);
  SnapshotPtr taken = std::move(it->second.snapshot);
  table.versions.erase(it);
  std::erase_if(table.dropped, [](const auto& entry) { return entry.second.expired(); });
  table.dropped.emplace_back(version, taken);
  return taken;
}

void TableRegistry::Publish(SnapshotPtr snapshot) {
  std::vector<SnapshotPtr> dropped;  // let go of without the lock
  MutexLock lock(&mutex_);
  if (std::find(names_.begin(), names_.end(), snapshot->name) == names_.end()) names_.push_back(snapshot->name);
  Table& table = tables_[snapshot->name];
  const uint64_t version = snapshot->version;
  if (table.versions.contains(version)) dropped.push_back(TakeOut(table, version));
  table.serving = snapshot;
  table.versions[version] = {std::move(snapshot), ++clock_};
  while (table.versions.size() > static_cast<size_t>(keep_versions_)) {
    const auto oldest =
        std::min_element(table.versions.begin(), table.versions.end(),
                         [](const auto& a, const auto& b) { return a.second.served_at < b.second.served_at; });
    dropped.push_back(TakeOut(table, oldest->first));
  }
}

absl::StatusOr<SnapshotPtr> TableRegistry::SetServing(absl::string_view name, uint64_t version) {
  SnapshotPtr replaced;
  MutexLock lock(&mutex_);
  if (shutting_down_) return ShuttingDown();
  Table* table = Find(name);
  if (table == nullptr) return NoTable(name);
  const auto it = table->versions.find(version);
  if (it == table->versions.end()) return NoVersion(*table->serving, version, NumbersOf(table->versions));
  it->second.served_at = ++clock_;
  replaced = std::exchange(table->serving, it->second.snapshot);
  return it->second.snapshot;
}

absl::Status TableRegistry::Drop(absl::string_view name, uint64_t version) {
  SnapshotPtr dropped;
  MutexLock lock(&mutex_);
  if (shutting_down_) return ShuttingDown();
  Table* table = Find(name);
  if (table == nullptr) return NoTable(name);
  if (!table->versions.contains(version)) return NoVersion(*table->serving, version, NumbersOf(table->versions));
  if (version == table->serving->version) {
    const std::string message =
        absl::StrCat("version ", version, " of table \"", table->serving->name,
                     "\" is the serving one: serve another first, or unload the whole table with version 0");
    return ErrorWithDetails(
        absl::StatusCode::kFailedPrecondition, message,
        {"VERSION_SERVING", {{"table", table->serving->name}, {"version", absl::StrCat(version)}}, {}});
  }
  dropped = TakeOut(*table, version);
  return absl::OkStatus();
}

absl::Status TableRegistry::Remove(absl::string_view name) {
  Table removed;
  MutexLock lock(&mutex_);
  if (shutting_down_) return ShuttingDown();
  Table* table = Find(name);
  if (table == nullptr) return NoTable(name);
  const std::string full_name = table->serving->name;
  removed = std::move(*table);
  tables_.erase(full_name);
  std::erase(names_, full_name);
  return absl::OkStatus();
}

std::vector<SnapshotPtr> TableRegistry::Idle(absl::string_view name) const {
  MutexLock lock(&mutex_);
  std::vector<Loaded> idle;
  if (const Table* table = Find(name); table != nullptr) {
    for (const auto& [version, loaded] : table->versions) {
      if (loaded.snapshot != table->serving) idle.push_back(loaded);
    }
  }
  std::sort(idle.begin(), idle.end(), [](const Loaded& a, const Loaded& b) { return a.served_at < b.served_at; });
  std::vector<SnapshotPtr> snapshots;
  for (Loaded& loaded : idle) snapshots.push_back(std::move(loaded.snapshot));
  return snapshots;
}

void TableRegistry::SetLoading(absl::string_view name, std::optional<uint64_t> version) {
  MutexLock lock(&mutex_);
  if (Table* table = Find(name); table != nullptr) table->loading = version;
}

void TableRegistry::SetFailed(absl::string_view name, std::optional<VersionInfo> failed) {
  MutexLock lock(&mutex_);
  if (Table* table = Find(name); table != nullptr) table->failed = std::move(failed);
}

void TableRegistry::BeginShutdown() {
  MutexLock lock(&mutex_);
  shutting_down_ = true;
}

absl::StatusOr<SnapshotPtr> TableRegistry::Acquire(absl::string_view name, uint64_t version) const {
  MutexLock lock(&mutex_);
  if (shutting_down_) return ShuttingDown();
  const Table* table = Find(name);
  if (table == nullptr) return NoTable(name);
  if (version == 0 || version == table->serving->version) return table->serving;
  const auto it = table->versions.find(version);
  if (it == table->versions.end()) return NoVersion(*table->serving, version, NumbersOf(table->versions));
  return it->second.snapshot;
}

TableRecord TableRegistry::RecordOf(const Table& table, SnapshotPtr snapshot) const {
  TableRecord record = {std::move(snapshot), table.serving->version, {}};
  for (const auto& [version, loaded] : table.versions)
    record.versions.push_back({version, VersionState::kAvailable, {}});
  for (const auto& [version, left] : table.dropped) {
    if (!left.expired()) record.versions.push_back({version, VersionState::kDraining, {}});
  }
  if (table.loading.has_value()) record.versions.push_back({*table.loading, VersionState::kLoading, {}});
  if (table.failed.has_value()) record.versions.push_back(*table.failed);
  std::stable_sort(record.versions.begin(), record.versions.end(),
                   [](const VersionInfo& a, const VersionInfo& b) { return a.version < b.version; });
  return record;
}

absl::StatusOr<TableRecord> TableRegistry::Describe(absl::string_view name, uint64_t version) const {
  absl::StatusOr<SnapshotPtr> snapshot = Acquire(name, version);
  if (!snapshot.ok()) return snapshot.status();
  MutexLock lock(&mutex_);
  const Table* table = Find((*snapshot)->name);
  // Unloaded since a moment ago: as it was.
  if (table == nullptr) return TableRecord{*snapshot, (*snapshot)->version, {}};
  return RecordOf(*table, version == 0 ? table->serving : *std::move(snapshot));
}

absl::StatusOr<std::vector<TableRecord>> TableRegistry::List() const {
  MutexLock lock(&mutex_);
  if (shutting_down_) return ShuttingDown();
  if (tables_.empty() && !names_.empty()) return Unavailable("LOADING", "no table loaded yet");
  if (tables_.size() < names_.size()) {
    return Unavailable("LOADING", absl::StrCat(tables_.size(), " of ", names_.size(), " tables are loaded"));
  }
  std::vector<TableRecord> records;
  for (const auto& [name, table] : tables_) records.push_back(RecordOf(table, table.serving));
  return records;
}

bool TableRegistry::all_loaded() const {
  MutexLock lock(&mutex_);
  return tables_.size() == names_.size();
}

}  // namespace embedding
