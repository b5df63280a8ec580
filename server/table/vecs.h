// The plain binary formats of the nearest-neighbour benchmarks, all little-endian.
//
// "bin" (big-ann-benchmarks, DiskANN): u32 n, u32 d, then n * d elements, float32 in .fbin, float16 in .f16bin, uint8
// in .u8bin, int8 in .i8bin; the size is 8 + n * d elements exactly. "vecs" (TEXMEX, http://corpus-texmex.irisa.fr):
// each row is i32 d and d elements, float32 in .fvecs, uint8 in .bvecs; d is the same in every row, and rows fill the
// file.
//
// None has a magic: a file is what its extension or format= says, if its numbers agree. Where they do not, the message
// says which of these formats they fit. .u8bin and .i8bin differ in nothing that could be checked.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/row_layout.h"

namespace embedding {

// Whether the format is one of the six above.
bool IsVecsFormat(TableFormat format);

// Whether a file is of this format (one of the six) as far as its size and its first bytes show: for "bin" the size is
// the one that the header promises, for "vecs" all rows that begin in `head` begin with the same width, and rows of it
// fill the file. head: the first bytes of the file, the more of them, the surer.
bool FitsVecsFormat(TableFormat format, absl::string_view head, uint64_t file_size);

// The same for .fvecs or .bvecs with two rows or more: of one row alone the width would be the only witness.
bool LooksLikeVecs(TableFormat format, absl::string_view head, uint64_t file_size);

// format: one of the six. head: the first bytes of the file, at least min(file_size, 8) of them. For "vecs" the widths
// of rows behind `head` are still to be checked, by LoadRows.
// DATA_LOSS: the file ends before its header does; n or d is 0, negative or over the limits; another size than the
// header promises or than rows fill; a row in `head` with another width than row 0. Where the file fits another one of
// the six, the message says which.
absl::StatusOr<RowLayout> ParseVecs(TableFormat format, absl::string_view head, uint64_t file_size,
                                    const TableLimits& limits);

}  // namespace embedding
