// What a sample of a table's rows says of its columns, before the rows are coded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace embedding {

// At least so many rows, of tables that have them: a relative error of about 1 / sqrt(2 * 2048), 2 %.
constexpr int64_t kSampledRows = 2048;

// Sums are serial, in double: the same everywhere. Not thread-safe.
struct ColumnSums {
  explicit ColumnSums(size_t dim) : sums(dim), squares(dim) {}

  // row: [dim], finite.
  void Add(const float* row);
  // Whether the rows share so much of their mean that it is worth taking off. False without rows.
  bool HaveCommonMean() const;
  double MeanOf(size_t column) const { return sums[column] / count; }

  std::vector<double> sums;     // [dim]
  std::vector<double> squares;  // [dim]: sums of squares
  double count = 0;             // rows
};

}  // namespace embedding
