#include "server/service/lookup_answer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/status_codec.h"
#include "proto/vector_codec.h"
#include "server/kernels/kernels.h"
#include "server/service/reply_writer.h"

namespace embedding {
namespace {

constexpr size_t kCacheLine = 64;

// Random rows of a large table come from memory, one by one, unless they are asked for before they are needed.
class RowPrefetcher {
 public:
  RowPrefetcher(const EmbeddingTable& table, std::span<const int64_t> ids)
      : table_(table), ids_(ids), distance_(std::clamp<size_t>(kBytesAhead / table.row_bytes(), 1, kMaxRowsAhead)) {
    for (size_t i = 0; i < std::min(distance_, ids.size()); ++i) Fetch(i);
  }

  // To be called before row i is read.
  void Before(size_t i) const {
    if (i + distance_ < ids_.size()) Fetch(i + distance_);
  }

 private:
  static constexpr size_t kBytesAhead = 4096;
  static constexpr size_t kMaxRowsAhead = 16;
  // Of wide rows only the beginning: once a row is being read, the hardware fetches on.
  static constexpr size_t kMaxBytesOfRow = 4096;

  void Fetch(size_t i) const {
    const std::byte* const row = table_.row(ids_[i]);
    const size_t bytes = std::min(table_.row_bytes(), kMaxBytesOfRow);
    for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(row + at, 0, 0);
    __builtin_prefetch(row + bytes - 1, 0, 0);  // rows need not begin at a line's begin
  }

  const EmbeddingTable& table_;
  const std::span<const int64_t> ids_;
  const size_t distance_;
};

double LargestFinite(v1::Dtype dtype) {
  return dtype == v1::DTYPE_F16 ? 65504.0 : std::ldexp(255.0, 120);  // binary16; bfloat16: 0x7F7F
}

ElementType ToElementType(v1::Dtype dtype) {
  return dtype == v1::DTYPE_F16 ? ElementType::kF16 : dtype == v1::DTYPE_BF16 ? ElementType::kBF16 : ElementType::kF32;
}

absl::Status ValueOutOfRange(const RowSelection& rows, size_t position, size_t column, float value, v1::Dtype output) {
  const auto index = static_cast<int64_t>(position);
  const int64_t id = rows.ids[position];
  const std::string message =
      absl::StrCat(ElementName(rows, "", index), rows.kind == RowSelection::Kind::kKeys ? " is row " : " is ", id,
                   ", its column ", column, " is ", absl::StrFormat("%.9g", value), ", ", v1::Dtype_Name(output),
                   " ends at +-", absl::StrFormat("%.9g", LargestFinite(output)));
  return ErrorWithDetails(absl::StatusCode::kOutOfRange, message,
                          {"VALUE_OUT_OF_RANGE",
                           {{"position", absl::StrCat(index)},
                            {"id", absl::StrCat(id)},
                            {"column", absl::StrCat(column)},
                            {"value", absl::StrFormat("%.9g", value)}},
                           {{"output_dtype", message}}});
}

}  // namespace

absl::Status GatherRows(const EmbeddingTable& table, const RowSelection& rows, size_t first, size_t count,
                        v1::Dtype output, uint8_t* to) {
  const std::span<const int64_t> ids(rows.ids.data() + first, count);
  const RowPrefetcher prefetcher(table, ids);
  const auto dim = static_cast<size_t>(table.dim());
  const size_t row_bytes = dim * WireDtypeSize(output);
  if (WireDtype(table.dtype()) == output) {
    for (size_t i = 0; i < count; ++i, to += row_bytes) {
      prefetcher.Before(i);
      std::memcpy(to, table.row(ids[i]), row_bytes);
    }
    return absl::OkStatus();
  }
  const ElementType stored = ElementTypeOf(table.dtype());
  if (output == v1::DTYPE_F32) {
    for (size_t i = 0; i < count; ++i, to += row_bytes) {
      prefetcher.Before(i);
      // Exact: every F16 and BF16 value is an F32 value. The kernel accepts any alignment.
      WidenToF32(stored, table.row(ids[i]), dim, reinterpret_cast<float*>(to));
    }
    return absl::OkStatus();
  }
  std::vector<float> row(dim);
  for (size_t i = 0; i < count; ++i, to += row_bytes) {
    prefetcher.Before(i);
    WidenToF32(stored, table.row(ids[i]), dim, row.data());
    const size_t column = NarrowFromF32(row.data(), dim, ToElementType(output), to);
    if (column != dim) return ValueOutOfRange(rows, first + i, column, row[column], output);
  }
  return absl::OkStatus();
}

}  // namespace embedding
