#include "server/service/snapshot.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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

}  // namespace

TableRegistry::TableRegistry(std::vector<std::string> names) : names_(std::move(names)) {}

void TableRegistry::Publish(SnapshotPtr snapshot) {
  SnapshotPtr replaced;  // destroyed outside the lock: freeing a table takes a while
  MutexLock lock(&mutex_);
  SnapshotPtr& place = loaded_[snapshot->name];
  replaced = std::exchange(place, std::move(snapshot));
}

void TableRegistry::BeginShutdown() {
  MutexLock lock(&mutex_);
  shutting_down_ = true;
}

absl::StatusOr<SnapshotPtr> TableRegistry::Acquire(absl::string_view name, uint64_t version) const {
  SnapshotPtr found;
  bool nothing_loaded = false;
  {
    MutexLock lock(&mutex_);
    if (shutting_down_) return Unavailable("SHUTTING_DOWN", "server is shutting down");
    nothing_loaded = loaded_.empty();
    if (name.empty() && names_.size() == 1) {
      if (!nothing_loaded) found = loaded_.begin()->second;
    } else if (const auto it = loaded_.find(std::string_view(name.data(), name.size())); it != loaded_.end()) {
      found = it->second;
    }
  }
  if (found != nullptr) {
    if (version == 0 || version == found->version) return found;
    const std::string message =
        absl::StrCat("table \"", found->name, "\" serves version ", found->version, ", not ", version);
    return ErrorWithDetails(absl::StatusCode::kNotFound, message,
                            {"VERSION_NOT_FOUND",
                             {{"table", found->name},
                              {"version", absl::StrCat(version)},
                              {"serving_version", absl::StrCat(found->version)}},
                             {}});
  }
  if (!name.empty() && !IsTableName(name)) {
    return InvalidField("table.name",
                        absl::StrCat("table.name is \"", Escaped(name), "\", must be [A-Za-z0-9_.-]{1,64}"));
  }
  if (name.empty() && names_.size() > 1) {
    return InvalidField("table.name", absl::StrCat("table.name is empty, must name one of the ", names_.size(),
                                                   " tables: ", ListNames(names_)));
  }
  const bool known = name.empty() || std::find(names_.begin(), names_.end(), std::string(name)) != names_.end();
  if (!known) {
    return ErrorWithDetails(absl::StatusCode::kNotFound,
                            absl::StrCat("table \"", name, "\" does not exist; tables: ", ListNames(names_)),
                            {"TABLE_NOT_FOUND", {{"table", std::string(name)}}, {}});
  }
  return Unavailable("LOADING", nothing_loaded ? std::string("no table loaded yet")
                                               : absl::StrCat("table \"", name, "\" is not loaded yet"));
}

absl::StatusOr<std::vector<SnapshotPtr>> TableRegistry::List() const {
  MutexLock lock(&mutex_);
  if (shutting_down_) return Unavailable("SHUTTING_DOWN", "server is shutting down");
  if (loaded_.empty()) return Unavailable("LOADING", "no table loaded yet");
  if (loaded_.size() < names_.size()) {
    return Unavailable("LOADING", absl::StrCat(loaded_.size(), " of ", names_.size(), " tables are loaded"));
  }
  std::vector<SnapshotPtr> tables;
  for (const auto& [name, snapshot] : loaded_) tables.push_back(snapshot);
  return tables;
}

bool TableRegistry::all_loaded() const {
  MutexLock lock(&mutex_);
  return loaded_.size() == names_.size();
}

}  // namespace embedding
