#include "server/service/filter_request.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/service/request_errors.h"

namespace embedding {
namespace {

absl::Status CheckNumIds(int64_t num_ids, const RequestLimits& limits) {
  if (num_ids <= limits.max_filter_ids) return absl::OkStatus();
  return LimitExceeded("filter", absl::StrCat("filter has ", num_ids, " ids"), limits.max_filter_ids,
                       "--max-filter-ids",
                       absl::StrCat("the largest lists that fit hold ", limits.max_filter_ids, " ids together"));
}

// name: "filter.allow" or "filter.deny", as below.
absl::Status CheckRank(int64_t rank, absl::string_view name) {
  if (rank <= 1) return absl::OkStatus();
  const std::string path = absl::StrCat(name, ".shape");
  return InvalidField(path, absl::StrCat(path, " has ", rank, " dimensions, must have 1: only Lookup takes more"));
}

absl::Status CheckList(const v1::IdList& list, absl::string_view name) {
  const std::string path = absl::StrCat(name, ".shape");
  if (absl::Status status = CheckRank(list.shape_size(), name); !status.ok()) return status;
  if (list.shape_size() == 1 && list.shape(0) != list.values_size()) {
    return InvalidField(
        path, absl::StrCat(path, " is [", list.shape(0), "], ", name, " has ", list.values_size(), " entries"));
  }
  const auto negative = std::find_if(list.values().begin(), list.values().end(), [](int64_t id) { return id < 0; });
  if (negative == list.values().end()) return absl::OkStatus();
  const auto index = negative - list.values().begin();
  return InvalidField(absl::StrCat(name, ".values[", index, "]"),
                      absl::StrCat(name, "[", index, "]=", *negative, ", must be >= 0"));
}

absl::Status CheckRange(const v1::Filter& filter) {
  if (filter.first_row() < 0) {
    return InvalidField("filter.first_row", absl::StrCat("filter.first_row=", filter.first_row(), ", must be >= 0"));
  }
  if (filter.end_row() != 0 && filter.end_row() < filter.first_row()) {
    return InvalidField("filter.end_row", absl::StrCat("filter.end_row=", filter.end_row(),
                                                       ", must be 0 (the end of the table) or >= ", filter.first_row(),
                                                       ", the first_row"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TakeFilter(const v1::NearestNeighbourRequest& request, const RequestLimits& limits,
                        NeighbourQuery* query) {
  const v1::Filter& filter = request.filter();
  absl::Status counted = CheckNumIds(int64_t{filter.allow().values_size()} + filter.deny().values_size(), limits);
  if (!counted.ok()) return counted;
  if (absl::Status status = CheckList(filter.allow(), "filter.allow"); !status.ok()) return status;
  if (absl::Status status = CheckList(filter.deny(), "filter.deny"); !status.ok()) return status;
  if (absl::Status status = CheckRange(filter); !status.ok()) return status;
  if (filter.has_allow()) query->filter.allow.emplace(filter.allow().values().data(), filter.allow().values_size());
  query->filter.deny = {filter.deny().values().data(), static_cast<size_t>(filter.deny().values_size())};
  query->filter.first_row = filter.first_row();
  if (filter.end_row() != 0) query->filter.end_row = filter.end_row();

  if (!request.has_score_threshold()) return absl::OkStatus();
  const float threshold = request.score_threshold();
  if (!std::isfinite(threshold)) {
    return InvalidField("score_threshold", absl::StrCat("score_threshold is ",
                                                        std::isnan(threshold) ? "NaN"
                                                        : threshold > 0       ? "Infinity"
                                                                              : "-Infinity",
                                                        ", must be finite"));
  }
  query->threshold = threshold;
  return absl::OkStatus();
}

absl::Status CheckFilterCounts(const FieldCounts& counts, const RequestLimits& limits) {
  absl::Status status = CheckNumIds(counts.Of("filter.allow.values") + counts.Of("filter.deny.values"), limits);
  if (!status.ok()) return status;
  for (const absl::string_view name : {"filter.allow", "filter.deny"}) {
    if (status = CheckRank(counts.Of(absl::StrCat(name, ".shape")), name); !status.ok()) return status;
  }
  return absl::OkStatus();
}

int64_t FilterBytes(const RowFilter& filter, int64_t num_rows) {
  if (!filter.allow.has_value() && filter.deny.empty()) return 0;
  const size_t ids = filter.deny.size() + (filter.allow.has_value() ? filter.allow->size() : 0);
  return static_cast<int64_t>(ids * sizeof(int64_t)) + (num_rows + 7) / 8;
}

int64_t MostEligible(const RowFilter& filter, int64_t num_rows) {
  const int64_t end = std::min(filter.end_row.value_or(num_rows), num_rows);
  const int64_t in_range = std::max<int64_t>(0, end - filter.first_row);
  return filter.allow.has_value() ? std::min(in_range, static_cast<int64_t>(filter.allow->size())) : in_range;
}

}  // namespace embedding
