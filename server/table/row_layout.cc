#include "server/table/row_layout.h"

#include "absl/strings/str_cat.h"

namespace embedding {

absl::Status CheckTableSize(uint64_t num_rows, uint64_t dim, const TableLimits& limits) {
  if (num_rows >= 1 && dim >= 1 && num_rows <= static_cast<uint64_t>(limits.max_rows) &&
      dim <= static_cast<uint64_t>(limits.max_dim)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("table has ", num_rows, " rows of width ", dim, ", allowed are 1..",
                                          limits.max_rows, " rows (--max-rows) of width 1..", limits.max_dim,
                                          " (--max-dim)"));
}

std::string OtherWidthText(uint64_t row, int32_t width, int64_t dim) {
  return absl::StrCat("row ", row, " begins with the width ", width, ", row 0 with ", dim,
                      ": all rows of a table have one width");
}

bool RowBytesInFile(uint64_t num_rows, uint64_t dim, Dtype dtype, uint64_t* bytes) {
  uint64_t elements = 0;
  return !__builtin_mul_overflow(num_rows, dim, &elements) &&
         !__builtin_mul_overflow(elements, static_cast<uint64_t>(DtypeSize(dtype)), bytes);
}

}  // namespace embedding
