#include "server/table/vecs.h"

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

constexpr uint64_t kBinHeaderBytes = 8;

struct Format {
  TableFormat format;
  Dtype dtype;
  bool has_row_widths;  // "vecs"
  const char* file;     // as a message names such a file
};

constexpr Format kFormats[] = {
    {TableFormat::kFbin, Dtype::kF32, false, "an .fbin file"},
    {TableFormat::kF16bin, Dtype::kF16, false, "an .f16bin file"},
    {TableFormat::kU8bin, Dtype::kU8, false, "a .u8bin or .i8bin file"},
    {TableFormat::kI8bin, Dtype::kI8, false, "a .u8bin or .i8bin file"},
    {TableFormat::kFvecs, Dtype::kF32, true, "an .fvecs file (each row begins with its width)"},
    {TableFormat::kBvecs, Dtype::kU8, true, "a .bvecs file (each row begins with its width)"},
};

const Format* Find(TableFormat format) {
  for (const Format& known : kFormats) {
    if (known.format == format) return &known;
  }
  return nullptr;
}

uint32_t U32At(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// The size that a "bin" header promises; false if it passes 2^64.
bool PromisedBytes(absl::string_view head, Dtype dtype, uint64_t* bytes) {
  return RowBytesInFile(U32At(head, 0), U32At(head, 4), dtype, bytes) &&
         !__builtin_add_overflow(*bytes, kBinHeaderBytes, bytes);
}

bool FitsBin(Dtype dtype, absl::string_view head, uint64_t file_size) {
  uint64_t bytes = 0;
  return head.size() >= kBinHeaderBytes && U32At(head, 0) >= 1 && U32At(head, 4) >= 1 &&
         PromisedBytes(head, dtype, &bytes) && bytes == file_size;
}

// Bytes of a row with its width, of the width of row 0, in [1, 2^31); 0 for any other.
uint64_t StrideOf(Dtype dtype, absl::string_view head) {
  const uint32_t dim = U32At(head, 0);
  return dim == 0 || dim > 0x7FFFFFFF ? 0 : kVecsWidthBytes + uint64_t{dim} * DtypeSize(dtype);
}

// The first row that begins in `head` with another width than row 0; 0 if there is none.
uint64_t FirstOtherWidth(absl::string_view head, uint64_t stride) {
  for (uint64_t row = 1; row * stride + kVecsWidthBytes <= head.size(); ++row) {
    if (U32At(head, row * stride) != U32At(head, 0)) return row;
  }
  return 0;
}

bool FitsVecs(Dtype dtype, absl::string_view head, uint64_t file_size) {
  if (head.size() < kVecsWidthBytes) return false;
  const uint64_t stride = StrideOf(dtype, head);
  return stride != 0 && file_size != 0 && file_size % stride == 0 && FirstOtherWidth(head, stride) == 0;
}

// Begins the message on a file that fits another format than the one wanted: "file is an .fvecs file, not .fbin: ".
std::string WhatItFits(TableFormat wanted, absl::string_view head, uint64_t file_size) {
  for (const Format& other : kFormats) {
    if (other.format == wanted || !FitsVecsFormat(other.format, head, file_size)) continue;
    if (other.has_row_widths && !LooksLikeVecs(other.format, head, file_size)) continue;
    return absl::StrCat("file is ", other.file, ", not .", TableFormatName(wanted), ": ");
  }
  return "";
}

absl::StatusOr<RowLayout> ParseBin(const Format& format, absl::string_view head, uint64_t file_size,
                                   const TableLimits& limits) {
  const absl::string_view name = TableFormatName(format.format);
  if (file_size < kBinHeaderBytes || head.size() < kBinHeaderBytes) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", an .", name, " header needs 8"));
  }
  const uint64_t num_rows = U32At(head, 0);
  const uint64_t dim = U32At(head, 4);
  if (!FitsBin(format.dtype, head, file_size)) {
    const std::string fits = WhatItFits(format.format, head, file_size);
    uint64_t needed = 0;
    const bool is_empty = num_rows == 0 || dim == 0;
    if (!PromisedBytes(head, format.dtype, &needed)) {
      return absl::DataLossError(absl::StrCat(fits, "file ends at byte ", file_size, ", its .", name,
                                              " header promises ", num_rows, " rows of width ", dim,
                                              ", more than any file holds"));
    }
    if (!is_empty || !fits.empty()) {
      return absl::DataLossError(absl::StrCat(fits, "file ends at byte ", file_size, ", its .", name,
                                              " header promises ", num_rows, " rows of width ", dim,
                                              ", which end at byte ", needed));
    }
  }
  if (absl::Status status = CheckTableSize(num_rows, dim, limits); !status.ok()) return status;
  return RowLayout{.dtype = format.dtype,
                   .num_rows = static_cast<int64_t>(num_rows),
                   .dim = static_cast<int64_t>(dim),
                   .offset = kBinHeaderBytes};
}

absl::StatusOr<RowLayout> ParseRowWidths(const Format& format, absl::string_view head, uint64_t file_size,
                                         const TableLimits& limits) {
  const absl::string_view name = TableFormatName(format.format);
  if (file_size < kVecsWidthBytes || head.size() < kVecsWidthBytes) {
    return absl::DataLossError(
        absl::StrCat("file ends at byte ", file_size, ", the width of a row of .", name, " needs 4"));
  }
  const std::string fits = FitsVecs(format.dtype, head, file_size) ? "" : WhatItFits(format.format, head, file_size);
  const auto dim = static_cast<int32_t>(U32At(head, 0));
  const uint64_t stride = StrideOf(format.dtype, head);
  if (stride == 0) {
    return absl::DataLossError(
        absl::StrCat(fits, "row 0 of .", name, " begins with the width ", dim, ", allowed are 1..", limits.max_dim));
  }
  if (file_size % stride != 0) {
    return absl::DataLossError(absl::StrCat(fits, "file ends at byte ", file_size, ", no multiple of the ", stride,
                                            " bytes of a row of .", name, " whose width is ", dim,
                                            ", as row 0 says: ", file_size % stride, " bytes are left over"));
  }
  if (const uint64_t row = FirstOtherWidth(head, stride); row != 0) {
    return absl::DataLossError(
        absl::StrCat(fits, OtherWidthText(row, static_cast<int32_t>(U32At(head, row * stride)), dim)));
  }
  const uint64_t num_rows = file_size / stride;
  if (absl::Status status = CheckTableSize(num_rows, static_cast<uint64_t>(dim), limits); !status.ok()) return status;
  return RowLayout{
      .dtype = format.dtype, .num_rows = static_cast<int64_t>(num_rows), .dim = dim, .has_row_widths = true};
}

}  // namespace

bool IsVecsFormat(TableFormat format) { return Find(format) != nullptr; }

bool FitsVecsFormat(TableFormat format, absl::string_view head, uint64_t file_size) {
  const Format* known = Find(format);
  assert(known != nullptr);
  return known->has_row_widths ? FitsVecs(known->dtype, head, file_size) : FitsBin(known->dtype, head, file_size);
}

bool LooksLikeVecs(TableFormat format, absl::string_view head, uint64_t file_size) {
  const Format* known = Find(format);
  assert(known != nullptr && known->has_row_widths);
  return FitsVecs(known->dtype, head, file_size) && file_size != StrideOf(known->dtype, head);
}

absl::StatusOr<RowLayout> ParseVecs(TableFormat format, absl::string_view head, uint64_t file_size,
                                    const TableLimits& limits) {
  const Format* known = Find(format);
  assert(known != nullptr);
  return known->has_row_widths ? ParseRowWidths(*known, head, file_size, limits)
                               : ParseBin(*known, head, file_size, limits);
}

}  // namespace embedding
