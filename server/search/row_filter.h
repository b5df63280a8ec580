// Which rows a search may find: the filter as it is given, and as a scan reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace embedding {

// All that is given must hold. Ids are >= 0; those of rows that the table does not have name nothing.
struct RowFilter {
  std::optional<std::span<const int64_t>> allow;  // only these rows; present and empty: none
  std::span<const int64_t> deny;                  // not these rows
  int64_t first_row = 0;                          // >= 0; only rows first_row <= id < end_row
  std::optional<int64_t> end_row;                 // >= 0; unset: the end of the table
};

// A filter made ready for one table. Immutable, so it may be shared between threads; borrows nothing.
//
// Few eligible rows are kept as a list, which is scored directly; many as one bit for each row of the range, which a
// scan asks only of rows that are close enough to matter.
class EligibleRows {
 public:
  // num_rows >= 1. Takes time in proportion to both lists and, where there are bits, to num_rows / 64.
  EligibleRows(const RowFilter& filter, int64_t num_rows);

  // Every eligible row lies in [begin, end); both ends lie in [0, num_rows].
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

  // How many rows are eligible.
  int64_t count() const { return count_; }

  // The eligible rows, ascending, where they are few beside the range; else null.
  const std::vector<int64_t>* list() const { return list_.has_value() ? &*list_ : nullptr; }

  // Whether a row of [begin, end) is eligible. Only where there is no list.
  bool Contains(int64_t row) const {
    if (bits_.empty()) return true;
    const auto at = static_cast<size_t>(row - begin_);
    return (bits_[at / 64] >> (at % 64) & 1) != 0;
  }

 private:
  void KeepList(std::vector<int64_t> rows);
  void FillBits(const RowFilter& filter);
  // Bits that leave few rows become a list.
  void ListFewBits();

  int64_t begin_ = 0;
  int64_t end_ = 0;
  int64_t count_ = 0;
  std::optional<std::vector<int64_t>> list_;
  std::vector<uint64_t> bits_;  // [ceil((end - begin) / 64)], or empty: all rows of the range
};

}  // namespace embedding
