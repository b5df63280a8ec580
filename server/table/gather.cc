#include "server/table/gather.h"

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <vector>

#include "server/kernels/kernels.h"

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
    __builtin_prefetch(row + bytes - 1, 0, 0);  // rows need not begin where a line does
  }

  const EmbeddingTable& table_;
  const std::span<const int64_t> ids_;
  const size_t distance_;
};

}  // namespace

std::optional<ValueOverflow> GatherRows(const EmbeddingTable& table, std::span<const int64_t> ids, Dtype output,
                                        std::byte* to) {
  const RowPrefetcher prefetcher(table, ids);
  const auto dim = static_cast<size_t>(table.dim());
  const size_t row_bytes = dim * DtypeSize(output);
  const ElementType stored = ElementTypeOf(table.dtype());
  if (output == table.dtype()) {
    for (size_t i = 0; i < ids.size(); ++i, to += row_bytes) {
      prefetcher.Before(i);
      std::memcpy(to, table.row(ids[i]), row_bytes);
    }
    return std::nullopt;
  }
  if (output == Dtype::kF32) {
    for (size_t i = 0; i < ids.size(); ++i, to += row_bytes) {
      prefetcher.Before(i);
      // The kernel accepts any alignment.
      WidenToF32(stored, table.row(ids[i]), dim, reinterpret_cast<float*>(to));
    }
    return std::nullopt;
  }
  std::vector<float> row(dim);
  for (size_t i = 0; i < ids.size(); ++i, to += row_bytes) {
    prefetcher.Before(i);
    WidenToF32(stored, table.row(ids[i]), dim, row.data());
    const size_t column = NarrowFromF32(row.data(), dim, ElementTypeOf(output), to);
    if (column != dim) return ValueOverflow{i, static_cast<int64_t>(column), row[column]};
  }
  return std::nullopt;
}

double LargestFinite(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 65504.0;  // 0x7BFF
    case Dtype::kBF16:
      return 0x1.FEp127;  // 0x7F7F
    default:
      return FLT_MAX;
  }
}

}  // namespace embedding
