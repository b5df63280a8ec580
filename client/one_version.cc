#include "client/one_version.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/status_codec.h"

namespace embedding::client {
namespace {

constexpr int kMaxStarts = 4;

bool IsVersionGone(const absl::Status& status) {
  return absl::IsNotFound(status) && DetailsOf(status).reason == "VERSION_NOT_FOUND";
}

std::string Described(const TableStamp& stamp) {
  return absl::StrCat("version ", stamp.version, " (fingerprint ", stamp.fingerprint, ")");
}

}  // namespace

absl::StatusOr<TableStamp> SendToOneVersion(const TableRef& table, size_t num_parts, SendPart send) {
  std::string change;
  for (int start = 0; start < kMaxStarts; ++start) {
    absl::StatusOr<TableStamp> first = send(0, table);
    if (!first.ok()) return first;
    const TableRef pinned{first->name, first->version};
    bool changed = false;
    for (size_t i = 1; i < num_parts && !changed; ++i) {
      absl::StatusOr<TableStamp> stamp = send(i, pinned);
      if (!stamp.ok()) {
        if (table.version != 0 || !IsVersionGone(stamp.status())) return stamp;
        changed = true;
        change = absl::StrCat(Described(*first), " is no longer served");
      } else if (*stamp != *first) {
        changed = true;
        change = absl::StrCat(Described(*first), " and ", Described(*stamp), " both answered");
      }
    }
    if (!changed) return first;
  }
  return ErrorWithDetails(absl::StatusCode::kAborted,
                          absl::StrCat("the table changed during each of ", kMaxStarts, " runs over the ", num_parts,
                                       " parts of this call; at last ", change),
                          {.reason = "TABLE_CHANGED", .metadata = {}, .violations = {}});
}

}  // namespace embedding::client
