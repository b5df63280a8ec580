#include "server/service/neighbour_queries.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/service/request_errors.h"

namespace embedding {

absl::Status NeighbourQueries::Check(const v1::NearestNeighbourRequest& request, const RequestLimits& limits) {
  by_examples_ = request.has_examples();
  if (!by_examples_ && !request.has_targets()) {
    return InvalidField("query", "query is unset, must hold targets or examples");
  }
  // A count alone is known before anything is looked at; that of targets takes a look.
  const auto check_count = [&](int64_t count) {
    if (count <= limits.max_queries) return absl::OkStatus();
    return LimitExceeded(path(), absl::StrCat(by_examples_ ? "examples" : "targets", " has ", count, " queries"),
                         limits.max_queries, "--max-queries",
                         absl::StrCat("the largest batch that fits is ", limits.max_queries));
  };
  if (by_examples_) {
    if (absl::Status status = check_count(request.examples().queries_size()); !status.ok()) return status;
    return examples_.Check(request.examples(), limits);
  }
  if (absl::Status status = targets_.Check(request.targets(), true, limits, "targets."); !status.ok()) return status;
  return check_count(targets_.count());
}

absl::Status NeighbourQueries::CheckWidth(const EmbeddingTable& table) const {
  return by_examples_ ? examples_.CheckWidth(table) : targets_.CheckWidth(table);
}

absl::Status NeighbourQueries::Resolve(const EmbeddingTable& table, v1::MissingPolicy policy) {
  dim_ = table.dim();
  absl::Status status = by_examples_ ? examples_.Resolve(table, policy) : targets_.Resolve(table, policy);
  if (!status.ok()) return status;
  if (by_examples_) {
    for (int64_t i = 0; i < count(); ++i) {
      if (examples_.NamesMissingRow(i)) missing_.push_back(i);
    }
  } else {
    missing_ = targets_.missing();
  }
  size_t next = 0;
  for (int64_t i = 0; i < count(); ++i) {
    if (next < missing_.size() && missing_[next] == i) {
      ++next;
    } else {
      searched_.push_back(i);
    }
  }
  return absl::OkStatus();
}

void NeighbourQueries::Compute(int64_t i, StopPoll& stop) {
  examples_.Compute(searched_[static_cast<size_t>(i)], vectors_.data() + i * dim_, stop);
}

void NeighbourQueries::Fill(NeighbourQuery* query, bool exclude) const {
  query->queries.reserve(searched_.size());
  if (exclude) query->excluded_rows.reserve(searched_.size());
  for (size_t i = 0; i < searched_.size(); ++i) {
    const auto q = static_cast<size_t>(searched_[i]);
    if (by_examples_) {
      query->queries.push_back({vectors_.data() + i * static_cast<size_t>(dim_), ElementType::kF64});
      if (exclude) query->excluded_rows.push_back(examples_.RowsOf(searched_[i]));
    } else {
      query->queries.push_back(targets_.views()[q]);
      if (exclude && !targets_.row_ids().empty()) query->excluded_rows.push_back({targets_.row_ids()[q]});
    }
  }
}

std::vector<std::vector<Neighbour>> NeighbourQueries::Spread(std::vector<std::vector<Neighbour>> found) const {
  if (missing_.empty()) return found;
  std::vector<std::vector<Neighbour>> all(static_cast<size_t>(count()));
  for (size_t i = 0; i < found.size(); ++i) all[static_cast<size_t>(searched_[i])] = std::move(found[i]);
  return all;
}

}  // namespace embedding
