// Canonical double sums (canonical.h), per SIMD target.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "server/kernels/elements-inl.h"

#if defined(EMBEDDING_SERVER_KERNELS_CANONICAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_CANONICAL_INL_H_
#undef EMBEDDING_SERVER_KERNELS_CANONICAL_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_CANONICAL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {

// The definition has 8 partial sums; a target holds them in 1, 2, 4 or 8 vectors, with the same bits.
constexpr size_t kPartialSums = 8;
using F64Tag = hn::CappedTag<double, kPartialSums>;
using F64Vec = hn::Vec<F64Tag>;
constexpr size_t kF64Lanes = hn::MaxLanes(F64Tag());
constexpr size_t kF64Vectors = kPartialSums / kF64Lanes;

template <ElementType kType>
HWY_INLINE F64Vec LoadF64(const uint8_t* from) {
  const F64Tag dd;
  if constexpr (kType == ElementType::kF64) {
    return LoadAny(dd, from);
  } else {
    return hn::PromoteTo(dd, LoadF32<kType>(hn::Rebind<float, F64Tag>(), from));
  }
}

enum class SumOf { kProducts, kSquaredDifferences, kSquares };

// One step of 8 elements for kRows rows at once: each row has its own chain of additions, and one chain alone would
// wait for the adder's latency. Multiply, then add: a fused step would round once less.
template <ElementType kType, SumOf kSum, size_t kRows>
HWY_INLINE void AddStep(const double* query, const uint8_t* const* rows, size_t offset_bytes,
                        F64Vec (&sums)[kRows][kF64Vectors]) {
  for (size_t v = 0; v < kF64Vectors; ++v) {
    const size_t at = offset_bytes + v * kF64Lanes * ElementSize(kType);
    F64Vec q = hn::Zero(F64Tag());
    if constexpr (kSum != SumOf::kSquares) q = hn::LoadU(F64Tag(), query + v * kF64Lanes);
    for (size_t r = 0; r < kRows; ++r) {
      const F64Vec x = LoadF64<kType>(rows[r] + at);
      if constexpr (kSum == SumOf::kProducts) {
        sums[r][v] = hn::Add(sums[r][v], hn::Mul(q, x));
      } else if constexpr (kSum == SumOf::kSquaredDifferences) {
        const F64Vec difference = hn::Sub(q, x);
        sums[r][v] = hn::Add(sums[r][v], hn::Mul(difference, difference));
      } else {
        sums[r][v] = hn::Add(sums[r][v], hn::Mul(x, x));
      }
    }
  }
}

// out[r] = the sum for row r. query is not read for kSquares.
template <ElementType kType, SumOf kSum, size_t kRows>
HWY_INLINE void CanonicalRows(const double* query, const uint8_t* const* rows, size_t dim, double* out) {
  constexpr size_t kSize = ElementSize(kType);
  F64Vec sums[kRows][kF64Vectors];
  for (auto& of_row : sums) {
    for (F64Vec& sum : of_row) sum = hn::Zero(F64Tag());
  }
  size_t j = 0;
  for (; j + kPartialSums <= dim; j += kPartialSums) {
    AddStep<kType, kSum, kRows>(kSum == SumOf::kSquares ? nullptr : query + j, rows, j * kSize, sums);
  }
  if (j < dim) {
    // Zeros fill the last step up: they add +0, which leaves every sum as it is (none is ever -0).
    double last_query[kPartialSums] = {};
    uint8_t last_rows[kRows][kPartialSums * kSize] = {};
    const uint8_t* last[kRows];
    if constexpr (kSum != SumOf::kSquares) std::memcpy(last_query, query + j, (dim - j) * sizeof(double));
    for (size_t r = 0; r < kRows; ++r) {
      std::memcpy(last_rows[r], rows[r] + j * kSize, (dim - j) * kSize);
      last[r] = last_rows[r];
    }
    AddStep<kType, kSum, kRows>(last_query, last, 0, sums);
  }
  for (size_t r = 0; r < kRows; ++r) {
    double s[kPartialSums];
    for (size_t v = 0; v < kF64Vectors; ++v) hn::StoreU(sums[r][v], F64Tag(), s + v * kF64Lanes);
    out[r] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
}

template <ElementType kType, SumOf kSum>
void CanonicalMany(const double* query, const void* const* rows, size_t num_rows, size_t dim, double* sums) {
  const auto* bytes = reinterpret_cast<const uint8_t* const*>(rows);
  size_t i = 0;
  for (; i + 4 <= num_rows; i += 4) CanonicalRows<kType, kSum, 4>(query, bytes + i, dim, sums + i);
  for (; i < num_rows; ++i) CanonicalRows<kType, kSum, 1>(query, bytes + i, dim, sums + i);
}

template <SumOf kSum>
void CanonicalOfType(const double* query, ElementType type, const void* const* rows, size_t num_rows, size_t dim,
                     double* sums) {
  switch (type) {
    case ElementType::kF32:
      return CanonicalMany<ElementType::kF32, kSum>(query, rows, num_rows, dim, sums);
    case ElementType::kF16:
      return CanonicalMany<ElementType::kF16, kSum>(query, rows, num_rows, dim, sums);
    case ElementType::kBF16:
      return CanonicalMany<ElementType::kBF16, kSum>(query, rows, num_rows, dim, sums);
    case ElementType::kF64:
      return CanonicalMany<ElementType::kF64, kSum>(query, rows, num_rows, dim, sums);
    case ElementType::kI8:
      return CanonicalMany<ElementType::kI8, kSum>(query, rows, num_rows, dim, sums);
    case ElementType::kU8:
      return CanonicalMany<ElementType::kU8, kSum>(query, rows, num_rows, dim, sums);
    case ElementType::kF8E4M3:
      return CanonicalMany<ElementType::kF8E4M3, kSum>(query, rows, num_rows, dim, sums);
    case ElementType::kF8E5M2:
      return CanonicalMany<ElementType::kF8E5M2, kSum>(query, rows, num_rows, dim, sums);
  }
}

void CanonicalDotOneToMany(const double* query, ElementType type, const void* const* rows, size_t num_rows, size_t dim,
                           double* dots) {
  CanonicalOfType<SumOf::kProducts>(query, type, rows, num_rows, dim, dots);
}

void CanonicalSquaredL2OneToMany(const double* query, ElementType type, const void* const* rows, size_t num_rows,
                                 size_t dim, double* sums) {
  CanonicalOfType<SumOf::kSquaredDifferences>(query, type, rows, num_rows, dim, sums);
}

void CanonicalSquaredNorms(ElementType type, const void* const* rows, size_t num_rows, size_t dim, double* norms) {
  CanonicalOfType<SumOf::kSquares>(nullptr, type, rows, num_rows, dim, norms);
}

template <ElementType kType>
void WidenToDoubles(const uint8_t* from, size_t count, double* to) {
  constexpr size_t kSize = ElementSize(kType);
  size_t i = 0;
  for (; i + kF64Lanes <= count; i += kF64Lanes) hn::StoreU(LoadF64<kType>(from + i * kSize), F64Tag(), to + i);
  if (i == count) return;
  uint8_t last_from[kF64Lanes * kSize] = {};
  double last_to[kF64Lanes];
  std::memcpy(last_from, from + i * kSize, (count - i) * kSize);
  hn::StoreU(LoadF64<kType>(last_from), F64Tag(), last_to);
  std::memcpy(to + i, last_to, (count - i) * sizeof(double));
}

void WidenToF64(ElementType type, const void* from, size_t count, double* to) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  switch (type) {
    case ElementType::kF32:
      return WidenToDoubles<ElementType::kF32>(bytes, count, to);
    case ElementType::kF16:
      return WidenToDoubles<ElementType::kF16>(bytes, count, to);
    case ElementType::kBF16:
      return WidenToDoubles<ElementType::kBF16>(bytes, count, to);
    case ElementType::kI8:
      return WidenToDoubles<ElementType::kI8>(bytes, count, to);
    case ElementType::kU8:
      return WidenToDoubles<ElementType::kU8>(bytes, count, to);
    case ElementType::kF8E4M3:
      return WidenToDoubles<ElementType::kF8E4M3>(bytes, count, to);
    case ElementType::kF8E5M2:
      return WidenToDoubles<ElementType::kF8E5M2>(bytes, count, to);
    case ElementType::kF64:
      if (count > 0) std::memcpy(to, from, count * sizeof(double));
      return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
