#include "server/table/row_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace embedding {

void RowCheck::Add(const std::byte* rows, int64_t first_row, int64_t num_rows) {
  const size_t count = static_cast<size_t>(num_rows);
  const size_t row_bytes = static_cast<size_t>(dim_) * ElementSize(type_);
  flags_.resize(count);
  const RowScan scan = ScanRows(type_, rows, count, static_cast<size_t>(dim_), flags_.data());
  zero_rows_ += scan.zero_rows;
  if (scan.non_finite_rows == 0) return;
  for (size_t i = 0; i < count; ++i) {
    if (flags_[i] != 0) AddNonFiniteRow(rows + i * row_bytes, first_row + static_cast<int64_t>(i));
  }
}

void RowCheck::AddNonFiniteRow(const std::byte* row, int64_t id) {
  wide_.resize(static_cast<size_t>(dim_));
  WidenToF32(type_, row, wide_.size(), wide_.data());
  const auto is_bad = [](float value) { return !std::isfinite(value); };
  const auto first = std::find_if(wide_.begin(), wide_.end(), is_bad);
  if (first_row_ < 0 || id < first_row_) {
    first_row_ = id;
    first_column_ = first - wide_.begin();
    first_value_ = *first;
  }
  non_finite_values_ += std::count_if(first, wide_.end(), is_bad);
  non_finite_rows_.push_back(id);
}

void RowCheck::Merge(const RowCheck& other) {
  zero_rows_ += other.zero_rows_;
  non_finite_values_ += other.non_finite_values_;
  non_finite_rows_.insert(non_finite_rows_.end(), other.non_finite_rows_.begin(), other.non_finite_rows_.end());
  if (other.first_row_ >= 0 && (first_row_ < 0 || other.first_row_ < first_row_)) {
    first_row_ = other.first_row_;
    first_column_ = other.first_column_;
    first_value_ = other.first_value_;
  }
}

std::vector<int64_t> RowCheck::TakeNonFiniteRows() {
  std::sort(non_finite_rows_.begin(), non_finite_rows_.end());
  return std::exchange(non_finite_rows_, {});
}

absl::Status RowCheck::RefuseNonFinite() const {
  if (non_finite_values_ == 0) return absl::OkStatus();
  const char* what = std::isnan(first_value_) ? "NaN" : first_value_ > 0 ? "+infinity" : "-infinity";
  return absl::DataLossError(absl::StrCat("row ", first_row_, ", column ", first_column_, " is ", what, "; ",
                                          non_finite_values_, " non-finite value", non_finite_values_ == 1 ? "" : "s",
                                          " (allow-non-finite=true serves them, searches then leave such rows out)"));
}

}  // namespace embedding
