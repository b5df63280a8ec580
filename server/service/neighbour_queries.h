// The queries of a NearestNeighbour, whether it names targets or examples.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/neighbour_index.h"
#include "server/service/example_queries.h"
#include "server/service/limits.h"
#include "server/service/operand.h"
#include "server/table/embedding_table.h"

namespace embedding {

// Borrows from the request's message and the table.
class NeighbourQueries {
 public:
  // Checks all that needs no table: what is set, the limit on queries, and as Operand and ExampleQueries do.
  absl::Status Check(const v1::NearestNeighbourRequest& request, const RequestLimits& limits);

  // Queries; known after Check.
  int64_t count() const { return by_examples_ ? examples_.count() : targets_.count(); }
  // Where they stand in the request, for messages.
  const char* path() const { return by_examples_ ? "examples.queries" : "targets"; }

  // As those of Operand.
  absl::Status CheckWidth(const EmbeddingTable& table) const;
  absl::Status Resolve(const EmbeddingTable& table, v1::MissingPolicy policy);

  // For embedding_rows_total.
  int64_t num_vectors() const { return by_examples_ ? examples_.num_examples() : targets_.count(); }
  int64_t num_missing() const { return by_examples_ ? examples_.num_missing() : targets_.num_missing(); }

  // Queries that name a missing row, ascending; they are not searched for.
  const std::vector<int64_t>& missing() const { return missing_; }
  int64_t num_searched() const { return static_cast<int64_t>(searched_.size()); }

  // What stands between Resolve and the search: vectors that are computed, their multiply-adds and their bytes.
  int64_t num_computed() const { return by_examples_ ? num_searched() : 0; }
  int64_t compute_work() const { return by_examples_ ? examples_.work() : 0; }
  int64_t vector_bytes() const { return by_examples_ ? examples_.vector_bytes() : 0; }
  // Allocates the vectors; before Compute.
  void AllocateVectors() { vectors_.resize(static_cast<size_t>(vector_bytes()) / sizeof(double)); }
  // i in [0, num_computed()). Thread-safe for different i.
  void Compute(int64_t i, StopPoll& stop);

  // Sets the queries to be searched for and, if `exclude`, the rows that each of them names and leaves out. What the
  // query then points to lies here, in the message and in the table.
  void Fill(NeighbourQuery* query, bool exclude) const;

  // Results of the queries searched for -> results of all, empty for those that name a missing row.
  std::vector<std::vector<Neighbour>> Spread(std::vector<std::vector<Neighbour>> found) const;

 private:
  bool by_examples_ = false;
  Operand targets_;
  ExampleQueries examples_;
  int64_t dim_ = 0;
  std::vector<int64_t> missing_;
  std::vector<int64_t> searched_;  // the others, ascending
  std::vector<double> vectors_;    // of examples: [num_searched, dim]
};

}  // namespace embedding
