// .fbin files, as of the Billion-Scale ANN benchmarks (big-ann-benchmarks, DiskANN): u32 n, u32 d, then n * d float32,
// all little-endian; the file's size is 8 + 4 n d exactly.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/row_layout.h"

namespace embedding {

// Whether the file is at least 8 bytes and its size is what its first 8 bytes promise, with n and d >= 1. Told by the
// bytes alone, since .fbin has no magic.
bool FbinSizeAgrees(absl::string_view head, uint64_t file_size);

// Whether the file could be an .fvecs file (TEXMEX: each row is i32 d and d float32) of two rows or more, as far as the
// head shows.
bool LooksLikeFvecs(absl::string_view head, uint64_t file_size);

// head: the first bytes of the file, at least min(file_size, 8) of them.
// DATA_LOSS: fewer than 8 bytes; n or d is 0 or over the limits; another size than 8 + 4 n d (a size that fits .fvecs
// is said to).
absl::StatusOr<RowLayout> ParseFbin(absl::string_view head, uint64_t file_size, const TableLimits& limits);

}  // namespace embedding
