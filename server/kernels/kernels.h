// Arithmetic on pointers, sizes and strides, compiled once per SIMD target and dispatched at run time. No table, Status
// or allocation here. Every pointer to elements may be unaligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace embedding {

// How the elements of a row are stored, little-endian: IEEE binary32, binary16, bfloat16, binary64.
enum class ElementType : uint8_t { kF32, kF16, kBF16, kF64 };

// Bytes of one element: 4, 2, 2, 8.
constexpr size_t ElementSize(ElementType type) {
  return type == ElementType::kF32 ? 4 : type == ElementType::kF64 ? 8 : 2;
}

// Name of the best SIMD target that this machine runs and that was compiled in, such as "AVX2".
const char* SimdTargetName();

// to[i] = from[i] as float32, i in [0, count). Exact for F16 and BF16 (subnormals, infinities and NaN payloads kept as
// far as the format goes); F64 is rounded to nearest even. Ranges must not overlap.
void WidenToF32(ElementType type, const void* from, size_t count, float* to);

// to[i] = from[i] in type F32, F16 or BF16, rounded to nearest even. Returns the index of the first finite from[i] that
// became infinite, or count if there is none (all of `to` is written either way). NaN stays NaN.
size_t NarrowFromF32(const float* from, size_t count, ElementType type, void* to);

// to[i] = from[i], F64 narrowed to F32, to nearest even. Returns as NarrowFromF32.
size_t NarrowF64ToF32(const double* from, size_t count, float* to);

// What a pass over rows finds.
struct RowScan {
  int64_t zero_rows = 0;        // rows whose elements are all +0 or -0
  int64_t non_finite_rows = 0;  // rows with NaN or infinity
};

// Looks at num_rows rows of dim elements, unpadded. non_finite[i] (may be null) is set to 1 for a row with NaN or
// infinity, else 0.
RowScan ScanRows(ElementType type, const void* rows, size_t num_rows, size_t dim, uint8_t* non_finite);

}  // namespace embedding
