// Raw files: little-endian elements, row-major, nothing else. What they hold is for the operator to say.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "server/table/row_layout.h"

namespace embedding {

// dim: 0 if the operator did not give it.
// INVALID_ARGUMENT: dtype or dim is missing. DATA_LOSS: an empty file, a size that is no multiple of a row's, or a
// table over the limits.
absl::StatusOr<RowLayout> ParseRaw(std::optional<Dtype> dtype, int64_t dim, uint64_t file_size,
                                   const TableLimits& limits);

}  // namespace embedding
