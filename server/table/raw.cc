#include "server/table/raw.h"

#include "absl/strings/str_cat.h"

namespace embedding {

absl::StatusOr<RowLayout> ParseRaw(std::optional<Dtype> dtype, int64_t dim, uint64_t file_size,
                                   const TableLimits& limits) {
  if (!dtype.has_value())
    return absl::InvalidArgumentError(absl::StrCat("format raw needs dtype=, one of ", kDtypeNames));
  if (dim < 1) return absl::InvalidArgumentError("format raw needs dim=, the width of a row in elements");
  if (absl::Status status = CheckTableSize(1, static_cast<uint64_t>(dim), limits); !status.ok()) return status;
  uint64_t row_bytes = 0;
  if (!RowBytesInFile(1, static_cast<uint64_t>(dim), *dtype, &row_bytes)) {
    return absl::DataLossError(absl::StrCat("rows of width ", dim, " pass 2^64 bytes"));
  }
  if (file_size == 0) return absl::DataLossError("file is empty");
  if (file_size % row_bytes != 0) {
    return absl::DataLossError(absl::StrCat("file has ", file_size, " bytes, no multiple of a row's ", row_bytes, " (",
                                            dim, " elements ", DtypeName(*dtype), "): ", file_size % row_bytes,
                                            " bytes are left over"));
  }
  const uint64_t num_rows = file_size / row_bytes;
  if (absl::Status status = CheckTableSize(num_rows, static_cast<uint64_t>(dim), limits); !status.ok()) return status;
  return RowLayout{.dtype = *dtype, .num_rows = static_cast<int64_t>(num_rows), .dim = dim};
}

}  // namespace embedding
