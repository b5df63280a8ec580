// One side of a Similarity, or the queries of a NearestNeighbour, or examples of one: rows of the table or vectors of
// the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/scan_blocks.h"
#include "server/search/score.h"
#include "server/search/weighted_mean.h"
#include "server/service/limits.h"
#include "server/service/row_selection.h"
#include "server/table/embedding_table.h"

namespace embedding {

// The limit on ids and the number of dimensions of a VectorSet, before protobuf parses. at: its path as in FieldCounts,
// ending in a dot. prefix: as in Operand::Check. INVALID_ARGUMENT (INVALID_FIELD, LIMIT_EXCEEDED), much as Check.
absl::Status CheckOperandCounts(const FieldCounts& counts, absl::string_view at, const RequestLimits& limits,
                                absl::string_view prefix);

// A VectorSet: n vectors that stay where they are, in the table or in the request's message, which must both outlive
// it.
class Operand {
 public:
  // Checks all that needs no table and no look at the elements: what is set, limits, dtype, shape, byte count.
  // prefix: the set's place in the request, such as "left." or "examples.queries[2].positive[0].".
  // INVALID_ARGUMENT (INVALID_FIELD, LIMIT_EXCEEDED).
  absl::Status Check(const v1::VectorSet& set, bool present, const RequestLimits& limits, absl::string_view prefix);

  // n; known after Check.
  int64_t count() const { return count_; }

  // INVALID_ARGUMENT (INVALID_FIELD) if the caller's vectors are not as wide as the table's rows.
  absl::Status CheckWidth(const EmbeddingTable& table) const;

  // Finds the rows or looks at every element, then fills views. After CheckWidth. The first wrong element decides:
  // INVALID_ARGUMENT (negative id; NaN, infinity, an F64 beyond +-FLT_MAX), OUT_OF_RANGE (ID_OUT_OF_RANGE), NOT_FOUND
  // (KEY_NOT_FOUND), FAILED_PRECONDITION (NO_KEYS; NON_FINITE_ROW). Under any policy but MISSING_POLICY_ERROR (and
  // unset) a row that does not exist is no error: its view is a vector of zeros.
  absl::Status Resolve(const EmbeddingTable& table, v1::MissingPolicy policy = v1::MISSING_POLICY_ERROR);

  // [n], after Resolve.
  const std::vector<VectorView>& views() const { return views_; }
  // The row of each vector, kMissingId for one that does not exist; empty for vectors of the caller's.
  const std::vector<int64_t>& row_ids() const { return rows_.ids; }
  // Positions of the rows that do not exist, ascending, where the policy lets Resolve go on.
  const std::vector<int64_t>& missing() const { return rows_.missing; }
  // How many rows Resolve did not find, whatever the policy; 0 where something else was wrong.
  int64_t num_missing() const { return num_missing_; }

  // How AddTo takes the vectors.
  struct Terms {
    const float* weights = nullptr;  // [n]; null: 1 each
    double sign = 1;
    bool unit_rows = false;  // rows of the table as unit vectors, vectors of the caller's as they are
  };
  // Adds each vector in order. After Resolve. Ends early, with a useless sum, once the poll says stop.
  void AddTo(WeightedMean& mean, const Terms& terms, StopPoll& stop) const;

 private:
  absl::Status CheckVectors(const v1::Tensor& tensor);
  absl::Status CheckFinite() const;

  std::string prefix_;
  bool is_rows_ = false;
  RowSelection rows_;
  int64_t num_missing_ = 0;
  int64_t count_ = 0;
  int64_t dim_ = 0;             // of the table, after Resolve
  int64_t width_ = 0;           // of the caller's vectors
  const void* data_ = nullptr;  // [count_, width_] of type_
  ElementType type_ = ElementType::kF32;
  std::vector<VectorView> views_;
  std::vector<std::byte> zeros_;  // what the views of missing rows point to
};

}  // namespace embedding
