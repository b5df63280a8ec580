// Where the rows lie in a file: what every format reader finds out.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/table/dtype.h"
#include "server/table/table_options.h"

namespace embedding {

// Bytes of the i32 that each row of .fvecs and .bvecs begins with.
inline constexpr uint64_t kVecsWidthBytes = 4;

// num_rows * dim elements of dtype, row-major and unpadded, from byte `offset` on. A reader that returns one has
// checked that 1 <= num_rows and 1 <= dim are within the limits and that the bytes lie inside the file.
struct RowLayout {
  Dtype dtype = Dtype::kF32;  // in the file
  int64_t num_rows = 0;       // V
  int64_t dim = 0;            // d
  uint64_t offset = 0;
  bool big_endian = false;
  // Each row is preceded by its width as i32, which must be dim: LoadRows checks every one of them.
  bool has_row_widths = false;
};

// DATA_LOSS that names V, d and the limits, unless 1 <= num_rows <= max_rows and 1 <= dim <= max_dim.
absl::Status CheckTableSize(uint64_t num_rows, uint64_t dim, const TableLimits& limits);

// "row 17 begins with the width 3, row 0 with 4", for rows that do not all have the width of the first.
std::string OtherWidthText(uint64_t row, int32_t width, int64_t dim);

// num_rows * dim * the element's size, or false if that passes 2^64.
bool RowBytesInFile(uint64_t num_rows, uint64_t dim, Dtype dtype, uint64_t* bytes);

}  // namespace embedding
