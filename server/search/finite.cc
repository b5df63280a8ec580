#include "server/search/finite.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace embedding {
namespace {

// Element i, exactly.
double ElementAt(ElementType type, const void* data, size_t i) {
  const std::byte* const at = static_cast<const std::byte*>(data) + i * ElementSize(type);
  if (type == ElementType::kF64) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  float value = 0;
  WidenToF32(type, at, 1, &value);
  return value;
}

bool Fits(double value) { return std::abs(value) <= FLT_MAX; }  // false for NaN

std::optional<UnfitElement> FirstUnfitFrom(ElementType type, const void* vectors, size_t begin, size_t end,
                                           size_t dim) {
  for (size_t i = begin; i < end; ++i) {
    const double value = ElementAt(type, vectors, i);
    if (!Fits(value)) return UnfitElement{static_cast<int64_t>(i / dim), static_cast<int64_t>(i % dim), value};
  }
  return std::nullopt;
}

}  // namespace

std::optional<UnfitElement> FirstUnfitElement(ElementType type, const void* vectors, int64_t num_vectors, int64_t dim) {
  const auto rows = static_cast<size_t>(num_vectors), width = static_cast<size_t>(dim);
  // The kernel's scan knows NaN and infinity only, but of doubles the range ends earlier.
  if (type == ElementType::kF64) return FirstUnfitFrom(type, vectors, 0, rows * width, width);
  std::vector<uint8_t> non_finite(rows);
  if (ScanRows(type, vectors, rows, width, non_finite.data()).non_finite_rows == 0) return std::nullopt;
  const auto row = static_cast<size_t>(std::find(non_finite.begin(), non_finite.end(), 1) - non_finite.begin());
  return FirstUnfitFrom(type, vectors, row * width, (row + 1) * width, width);
}

}  // namespace embedding
