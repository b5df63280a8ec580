// Arithmetic on pointers, sizes and strides, compiled once per SIMD target and dispatched at run time. No table, Status
// or allocation here. Every pointer to elements may be unaligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace embedding {

// How the elements of a row are stored, little-endian: IEEE binary32, binary16, bfloat16, binary64; integers of 8 bits,
// two's complement and unsigned; and the two 8-bit floats of the Open Compute Project (OCP 8-bit Floating Point
// Specification, revision 1.0): E4M3, without infinity, NaN = S.1111.111, largest 448; E5M2, the upper half of a
// binary16, largest 57344. Every value but F64's is a binary32, too.
enum class ElementType : uint8_t { kF32, kF16, kBF16, kF64, kI8, kU8, kF8E4M3, kF8E5M2 };

// Bytes of one element: 4, 2, 2, 8, then 1.
constexpr size_t ElementSize(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return 4;
    case ElementType::kF16:
    case ElementType::kBF16:
      return 2;
    case ElementType::kF64:
      return 8;
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kF8E4M3:
    case ElementType::kF8E5M2:
      return 1;
  }
  return 0;
}

// Name of the best SIMD target that this machine runs and that was compiled in, such as "AVX2".
const char* SimdTargetName();

// to[i] = from[i] as float32, i in [0, count). Exact (subnormals, infinities and NaN payloads kept as far as the format
// goes; NaN becomes quiet) but for F64, which is rounded to nearest even. Ranges must not overlap.
void WidenToF32(ElementType type, const void* from, size_t count, float* to);

// to[i] = from[i] in type F32, F16 or BF16, rounded to nearest even. Returns the index of the first finite from[i] that
// became infinite, or count if there is none (all of `to` is written either way). NaN stays NaN.
size_t NarrowFromF32(const float* from, size_t count, ElementType type, void* to);

// to[i] = from[i], F64 narrowed to F32, to nearest even. Returns as NarrowFromF32.
size_t NarrowF64ToF32(const double* from, size_t count, float* to);

// What a pass over rows finds.
struct RowScan {
  int64_t zero_rows = 0;        // rows whose elements are all +0 or -0
  int64_t non_finite_rows = 0;  // rows with NaN or infinity; never one of integers
};

// Looks at num_rows rows of dim elements, unpadded. non_finite[i] (may be null) is set to 1 for a row with NaN or
// infinity, else 0.
RowScan ScanRows(ElementType type, const void* rows, size_t num_rows, size_t dim, uint8_t* non_finite);

}  // namespace embedding
