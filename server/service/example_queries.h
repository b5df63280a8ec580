// Queries by examples: what ExampleQueries of a request names, and the one vector that each of them becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/scan_blocks.h"
#include "server/service/limits.h"
#include "server/service/operand.h"
#include "server/table/embedding_table.h"

namespace embedding {

// Queries, sets and the rows they name in a NearestNeighbourRequest, before a message is made for each.
// INVALID_ARGUMENT (LIMIT_EXCEEDED: more queries than max_queries, more sets or rows than max_ids; INVALID_FIELD:
// shapes beyond measure).
absl::Status CheckExampleCounts(const FieldCounts& counts, const RequestLimits& limits);

// As gensim's most_similar: rows named become unit vectors, vectors of the caller's are taken as they are; positives
// are added, negatives subtracted, each times its weight; the sum over the sum of weights is the query, in double.
// Borrows from the request's message and the table.
class ExampleQueries {
 public:
  // Checks all that needs no table and no look at the elements. INVALID_ARGUMENT (INVALID_FIELD: a set or a weight is
  // wrong, no example, all weights 0; LIMIT_EXCEEDED: too many examples in all).
  absl::Status Check(const v1::ExampleQueries& queries, const RequestLimits& limits);

  // Known after Check.
  int64_t count() const { return static_cast<int64_t>(queries_.size()); }
  int64_t num_examples() const { return num_examples_; }

  // As those of Operand; the first wrong example decides. Resolve under MISSING_POLICY_SKIP marks a query that names a
  // missing row.
  absl::Status CheckWidth(const EmbeddingTable& table) const;
  absl::Status Resolve(const EmbeddingTable& table, v1::MissingPolicy policy);

  // After Resolve.
  int64_t num_missing() const { return num_missing_; }
  bool NamesMissingRow(int64_t query) const { return query_of(query).names_missing; }
  // The rows that a query names, in order.
  std::vector<int64_t> RowsOf(int64_t query) const;
  // Multiply-adds of all calls of Compute.
  int64_t work() const { return num_examples_ * dim_; }
  // Of the vectors of all queries, in bytes.
  int64_t vector_bytes() const { return count() * dim_ * static_cast<int64_t>(sizeof(double)); }

  // The vector of a query: [dim] doubles at `to`. Useless once the poll says stop. Thread-safe.
  void Compute(int64_t query, double* to, StopPoll& stop) const;

 private:
  struct Query {
    const v1::ExampleQuery* message = nullptr;
    std::vector<Operand> sets;  // the positive ones, then the negative ones
    size_t num_positive_sets = 0;
    bool names_missing = false;
  };

  const Query& query_of(int64_t query) const { return queries_[static_cast<size_t>(query)]; }
  absl::Status CheckQuery(const v1::ExampleQuery& message, const RequestLimits& limits, int64_t index, Query* query);

  std::vector<Query> queries_;
  int64_t num_examples_ = 0;
  int64_t num_missing_ = 0;
  int64_t dim_ = 0;
};

}  // namespace embedding
