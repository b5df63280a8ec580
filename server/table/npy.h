// NumPy .npy files, versions 1.0, 2.0 and 3.0 (https://numpy.org/neps/nep-0001-npy-format.html, numpy/lib/format.py).
//
// Read: float32, float16, float64, little-endian or big-endian (swapped while loading), int8 and uint8, of rank 2 in C
// order.
// Refused: Fortran order (numpy.ascontiguousarray makes C order), other ranks and types, objects, structured types,
// native byte order "=" (NumPy never writes it), bytes after the array. The header is parsed by a small grammar and
// never evaluated.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/row_layout.h"

namespace embedding {

// Longest header that is read: NumPy's own reader stops at 10,000 characters.
inline constexpr uint32_t kMaxNpyHeaderBytes = 65536;

// Bytes from the start that ParseNpy wants to see, where there are so many.
inline constexpr uint64_t kNpyHeadBytes = 12 + kMaxNpyHeaderBytes;

// head: the first min(file_size, kNpyHeadBytes) bytes. DATA_LOSS for all that is refused above, a broken header, a file
// that ends too early, and a table over the limits; the message names the field and its value.
absl::StatusOr<RowLayout> ParseNpy(absl::string_view head, uint64_t file_size, const TableLimits& limits);

}  // namespace embedding
