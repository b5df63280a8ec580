#include "server/service/example_queries.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/service/request_errors.h"

namespace embedding {
namespace {

using Weights = google::protobuf::RepeatedField<float>;

// count: vectors that the weights belong to. Adds them, or 1 for each where there are none, to *sum.
absl::Status CheckWeights(const Weights& weights, int64_t count, absl::string_view query, absl::string_view side,
                          double* sum) {
  if (weights.empty()) {
    *sum += static_cast<double>(count);
    return absl::OkStatus();
  }
  const std::string path = absl::StrCat(query, ".", side, "_weights");
  if (weights.size() != count) {
    return InvalidField(path, absl::StrCat(path, " has ", weights.size(), " entries, ", query, ".", side, " has ",
                                           count, " vectors: must be as many, or none for 1 each"));
  }
  for (int i = 0; i < weights.size(); ++i) {
    const float weight = weights[i];
    if (weight >= 0 && std::isfinite(weight)) {
      *sum += double{weight};
      continue;
    }
    const std::string element = absl::StrCat(path, "[", i, "]");
    if (std::isnan(weight)) return InvalidField(element, absl::StrCat(element, " is NaN, must be finite and >= 0"));
    return InvalidField(element, absl::StrFormat("%s=%.9g, must be finite and >= 0", element, weight));
  }
  return absl::OkStatus();
}

absl::Status CheckNumExamples(int64_t num_examples, const RequestLimits& limits) {
  if (num_examples <= limits.max_ids) return absl::OkStatus();
  return LimitExceeded("examples", absl::StrCat("examples has ", num_examples, " vectors in all"), limits.max_ids,
                       "--max-ids", absl::StrCat("the largest batch that fits is ", limits.max_ids));
}

}  // namespace

absl::Status CheckExampleCounts(const FieldCounts& counts, const RequestLimits& limits) {
  const int64_t num_queries = counts.Of("examples.queries");
  if (num_queries == 0) return absl::OkStatus();
  int64_t num_sets = 0;
  int64_t num_named = 0;  // rows
  int64_t rank = 0;       // dimensions of all shapes together
  for (const absl::string_view sets : {"examples.queries.positive", "examples.queries.negative"}) {
    num_sets += counts.Of(sets);
    for (const absl::string_view list : {".rows.ids", ".rows.keys"}) {
      num_named += counts.Of(absl::StrCat(sets, list, ".values"));
    }
    for (const absl::string_view list : {".rows.ids", ".rows.keys", ".rows.id_tensor", ".vectors"}) {
      rank += counts.Of(absl::StrCat(sets, list, ".shape"));
    }
  }
  if (num_queries > limits.max_queries) {
    return LimitExceeded("examples.queries", absl::StrCat("examples has ", num_queries, " queries"), limits.max_queries,
                         "--max-queries", absl::StrCat("the largest batch that fits is ", limits.max_queries));
  }
  if (num_sets > limits.max_ids) {
    return LimitExceeded("examples", absl::StrCat("examples has ", num_sets, " sets of vectors"), limits.max_ids,
                         "--max-ids", absl::StrCat("the largest batch that fits is ", limits.max_ids));
  }
  if (absl::Status status = CheckNumExamples(num_named, limits); !status.ok()) return status;
  if (rank > kMaxRank * num_sets) {
    return InvalidField("examples", absl::StrCat("the shapes in examples have ", rank, " dimensions together, ",
                                                 num_sets, " sets of vectors have at most ", kMaxRank, " each"));
  }
  return absl::OkStatus();
}

absl::Status ExampleQueries::Check(const v1::ExampleQueries& queries, const RequestLimits& limits) {
  queries_.resize(static_cast<size_t>(queries.queries_size()));
  for (int i = 0; i < queries.queries_size(); ++i) {
    Query* const query = &queries_[static_cast<size_t>(i)];
    if (absl::Status status = CheckQuery(queries.queries(i), limits, i, query); !status.ok()) return status;
  }
  return CheckNumExamples(num_examples_, limits);
}

absl::Status ExampleQueries::CheckQuery(const v1::ExampleQuery& message, const RequestLimits& limits, int64_t index,
                                        Query* query) {
  const std::string path = absl::StrCat("examples.queries[", index, "]");
  query->message = &message;
  query->num_positive_sets = static_cast<size_t>(message.positive_size());
  query->sets.resize(static_cast<size_t>(message.positive_size()) + static_cast<size_t>(message.negative_size()));
  int64_t count = 0;
  double weights = 0;
  size_t next = 0;
  for (const bool is_positive : {true, false}) {
    const auto& sets = is_positive ? message.positive() : message.negative();
    const absl::string_view side = is_positive ? "positive" : "negative";
    int64_t side_count = 0;
    for (int i = 0; i < sets.size(); ++i) {
      Operand& operand = query->sets[next++];
      absl::Status status = operand.Check(sets[i], true, limits, absl::StrCat(path, ".", side, "[", i, "]."));
      if (!status.ok()) return status;
      side_count += operand.count();
    }
    absl::Status status = CheckWeights(is_positive ? message.positive_weights() : message.negative_weights(),
                                       side_count, path, side, &weights);
    if (!status.ok()) return status;
    count += side_count;
  }
  if (count == 0) return InvalidField(path, absl::StrCat(path, " has no example, must have at least one vector"));
  if (weights == 0) return InvalidField(path, absl::StrCat("all weights of ", path, " are 0, one must be above 0"));
  num_examples_ += count;
  return absl::OkStatus();
}

absl::Status ExampleQueries::CheckWidth(const EmbeddingTable& table) const {
  for (const Query& query : queries_) {
    for (const Operand& operand : query.sets) {
      if (absl::Status status = operand.CheckWidth(table); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ExampleQueries::Resolve(const EmbeddingTable& table, v1::MissingPolicy policy) {
  dim_ = table.dim();
  for (Query& query : queries_) {
    for (Operand& operand : query.sets) {
      absl::Status status = operand.Resolve(table, policy);
      // The first wrong set decides, so that those before it have nothing missing unless that is no error.
      num_missing_ += operand.num_missing();
      if (!status.ok()) return status;
      query.names_missing |= !operand.missing().empty();
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> ExampleQueries::RowsOf(int64_t query) const {
  std::vector<int64_t> rows;
  for (const Operand& operand : query_of(query).sets) {
    rows.insert(rows.end(), operand.row_ids().begin(), operand.row_ids().end());
  }
  return rows;
}

void ExampleQueries::Compute(int64_t query, double* to, StopPoll& stop) const {
  const Query& of = query_of(query);
  WeightedMean mean(dim_);
  Operand::Terms terms;
  terms.unit_rows = true;
  int64_t taken = 0;
  for (size_t i = 0; i < of.sets.size(); ++i) {
    if (i == of.num_positive_sets) taken = 0;
    const bool is_positive = i < of.num_positive_sets;
    const Weights& weights = is_positive ? of.message->positive_weights() : of.message->negative_weights();
    terms.sign = is_positive ? 1 : -1;
    terms.weights = weights.empty() ? nullptr : weights.data() + taken;
    of.sets[i].AddTo(mean, terms, stop);
    if (stop.stopped()) return;
    taken += of.sets[i].count();
  }
  mean.Write(to);
}

}  // namespace embedding
