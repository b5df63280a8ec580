// Sums and maxima of rows (pooling.h), per SIMD target.
#include <cstddef>

#include "hwy/highway.h"

#if defined(EMBEDDING_SERVER_KERNELS_POOLING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_POOLING_INL_H_
#undef EMBEDDING_SERVER_KERNELS_POOLING_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_POOLING_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Doubles, and as many floats.
using PooledF64 = hn::ScalableTag<double>;
using PooledF32 = hn::Rebind<float, PooledF64>;

// The loops below finish with the same arithmetic on single elements: a column's bits do not depend on where it stands.

void AddScaled(const float* HWY_RESTRICT row, size_t count, double weight, double* HWY_RESTRICT sums) {
  const PooledF64 dd;
  const PooledF32 df;
  const size_t lanes = hn::Lanes(dd);
  const auto w = hn::Set(dd, weight);
  size_t j = 0;
  // Multiply, then add: the product is exact, so a fused step would give the same bits, but not every target has one.
  for (; j + lanes <= count; j += lanes) {
    const auto x = hn::PromoteTo(dd, hn::LoadU(df, row + j));
    hn::StoreU(hn::Add(hn::LoadU(dd, sums + j), hn::Mul(w, x)), dd, sums + j);
  }
  for (; j < count; ++j) sums[j] += weight * static_cast<double>(row[j]);
}

void KeepMaxima(const float* HWY_RESTRICT row, size_t count, float* HWY_RESTRICT maxima) {
  const hn::ScalableTag<float> df;
  const size_t lanes = hn::Lanes(df);
  size_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    const auto x = hn::LoadU(df, row + j);
    const auto m = hn::LoadU(df, maxima + j);
    // Not Max, whose choice between zeros of two signs differs between targets.
    hn::StoreU(hn::IfThenElse(hn::Gt(x, m), x, m), df, maxima + j);
  }
  for (; j < count; ++j) maxima[j] = row[j] > maxima[j] ? row[j] : maxima[j];
}

void DivideAll(size_t count, double divisor, double* values) {
  const PooledF64 dd;
  const size_t lanes = hn::Lanes(dd);
  const auto by = hn::Set(dd, divisor);
  size_t j = 0;
  for (; j + lanes <= count; j += lanes) hn::StoreU(hn::Div(hn::LoadU(dd, values + j), by), dd, values + j);
  for (; j < count; ++j) values[j] /= divisor;
}

void DivideAllF32(size_t count, double divisor, float* values) {
  const PooledF64 dd;
  const PooledF32 df;
  const size_t lanes = hn::Lanes(dd);
  const auto by = hn::Set(dd, divisor);
  size_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    const auto x = hn::PromoteTo(dd, hn::LoadU(df, values + j));
    hn::StoreU(hn::DemoteTo(df, hn::Div(x, by)), df, values + j);
  }
  for (; j < count; ++j) values[j] = static_cast<float>(static_cast<double>(values[j]) / divisor);
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
