// What a load wants to know of rows: which are zero, which are not finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/kernels/kernels.h"

namespace embedding {

// Findings on some rows of a table; those of several threads are merged. Not thread-safe.
class RowCheck {
 public:
  RowCheck(ElementType type, int64_t dim) : type_(type), dim_(dim) {}

  // Looks at num_rows rows, unpadded, of which the first is row first_row of the table.
  void Add(const std::byte* rows, int64_t first_row, int64_t num_rows);

  // Takes over the findings of other rows.
  void Merge(const RowCheck& other);

  int64_t zero_rows() const { return zero_rows_; }
  // Sorts and gives away.
  std::vector<int64_t> TakeNonFiniteRows();

  // DATA_LOSS such as "row 12345, column 3 is NaN; 1 non-finite value" for the first of them in row order; OK if there
  // is none.
  absl::Status RefuseNonFinite() const;

 private:
  void AddNonFiniteRow(const std::byte* row, int64_t id);

  ElementType type_;
  int64_t dim_;
  int64_t zero_rows_ = 0;
  std::vector<int64_t> non_finite_rows_;
  int64_t non_finite_values_ = 0;
  // The first non-finite value seen in row order.
  int64_t first_row_ = -1;
  int64_t first_column_ = 0;
  float first_value_ = 0;
  std::vector<uint8_t> flags_;  // scratch
  std::vector<float> wide_;     // scratch
};

}  // namespace embedding
