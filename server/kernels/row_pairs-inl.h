// Float32 closeness of scattered rows (row_pairs.h), per SIMD target.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "server/kernels/elements-inl.h"
#include "server/kernels/row_pairs.h"

#if defined(EMBEDDING_SERVER_KERNELS_ROW_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_ROW_PAIRS_INL_H_
#undef EMBEDDING_SERVER_KERNELS_ROW_PAIRS_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_ROW_PAIRS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {

using PairTag = hn::CappedTag<float, 16>;
using PairVec = hn::Vec<PairTag>;
constexpr size_t kPairLanes = hn::MaxLanes(PairTag());

enum class PairSum { kDot, kSquaredL2 };

template <PairSum kSum>
HWY_INLINE PairVec AddPairs(PairVec a, PairVec b, PairVec sum) {
  if constexpr (kSum == PairSum::kDot) {
    return hn::MulAdd(a, b, sum);
  } else {
    const PairVec difference = hn::Sub(a, b);
    return hn::MulAdd(difference, difference, sum);
  }
}

// Four accumulators hide the latency of the adder. What is left is read so that it ends with the row, without the
// lanes that were added before; a row shorter than a vector is copied: nothing outside of a row is read.
template <ElementType kA, ElementType kB, PairSum kSum>
HWY_INLINE float SumOfPair(const uint8_t* a, const uint8_t* b, size_t dim) {
  constexpr size_t kSizeA = ElementSize(kA);
  constexpr size_t kSizeB = ElementSize(kB);
  const PairTag d;
  PairVec sum0 = hn::Zero(d);
  PairVec sum1 = hn::Zero(d);
  PairVec sum2 = hn::Zero(d);
  PairVec sum3 = hn::Zero(d);
  const auto add = [&](size_t at, PairVec sum) HWY_ATTR {
    return AddPairs<kSum>(LoadF32<kA>(d, a + at * kSizeA), LoadF32<kB>(d, b + at * kSizeB), sum);
  };
  size_t j = 0;
  for (; j + 4 * kPairLanes <= dim; j += 4 * kPairLanes) {
    sum0 = add(j, sum0);
    sum1 = add(j + kPairLanes, sum1);
    sum2 = add(j + 2 * kPairLanes, sum2);
    sum3 = add(j + 3 * kPairLanes, sum3);
  }
  for (; j + kPairLanes <= dim; j += kPairLanes) sum0 = add(j, sum0);
  if (j < dim) {
    PairVec va;
    PairVec vb;
    if (dim >= kPairLanes) {
      const size_t at = dim - kPairLanes;
      const auto is_left = hn::Ge(hn::Iota(d, 0.0f), hn::Set(d, static_cast<float>(j - at)));
      va = hn::IfThenElseZero(is_left, LoadF32<kA>(d, a + at * kSizeA));
      vb = hn::IfThenElseZero(is_left, LoadF32<kB>(d, b + at * kSizeB));
    } else {
      uint8_t padded_a[kPairLanes * kSizeA] = {};
      uint8_t padded_b[kPairLanes * kSizeB] = {};
      std::memcpy(padded_a, a, dim * kSizeA);
      std::memcpy(padded_b, b, dim * kSizeB);
      va = LoadF32<kA>(d, padded_a);
      vb = LoadF32<kB>(d, padded_b);
    }
    sum1 = AddPairs<kSum>(va, vb, sum1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

// Rows come from anywhere in memory: each is asked for while the one before the last is worked on.
constexpr size_t kRowsAhead = 2;
// More lines of a row than this are left to the processor's own prefetcher.
constexpr size_t kMostLinesAhead = 16;

HWY_INLINE void PrefetchRow(const void* row, size_t row_bytes) {
  constexpr size_t kLine = 64;
  const auto* bytes = static_cast<const uint8_t*>(row);
  for (size_t at = 0; at < row_bytes && at < kMostLinesAhead * kLine; at += kLine) hwy::Prefetch(bytes + at);
}

template <PairSum kSum, ElementType kType>
void SumsToRows(const float* query, const void* const* rows, size_t count, size_t dim, float* sums) {
  const size_t row_bytes = dim * ElementSize(kType);
  for (size_t i = 0; i < kRowsAhead && i < count; ++i) PrefetchRow(rows[i], row_bytes);
  for (size_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) PrefetchRow(rows[i + kRowsAhead], row_bytes);
    sums[i] = SumOfPair<ElementType::kF32, kType, kSum>(reinterpret_cast<const uint8_t*>(query),
                                                        static_cast<const uint8_t*>(rows[i]), dim);
  }
}

// Calls f with the type as a template argument.
template <class Function>
HWY_INLINE auto WithType(ElementType type, const Function& f) {
  switch (type) {
    case ElementType::kF16:
      return f.template operator()<ElementType::kF16>();
    case ElementType::kBF16:
      return f.template operator()<ElementType::kBF16>();
    case ElementType::kI8:
      return f.template operator()<ElementType::kI8>();
    case ElementType::kU8:
      return f.template operator()<ElementType::kU8>();
    case ElementType::kF8E4M3:
      return f.template operator()<ElementType::kF8E4M3>();
    case ElementType::kF8E5M2:
      return f.template operator()<ElementType::kF8E5M2>();
    case ElementType::kF32:
      break;
    case ElementType::kF64:
      HWY_ABORT("rows of doubles have no float32 closeness");
  }
  return f.template operator()<ElementType::kF32>();
}

template <PairSum kSum, ElementType kType>
float SumOfStored(const void* a, const void* b, size_t dim) {
  return SumOfPair<kType, kType, kSum>(static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), dim);
}

void DotToRows(const float* query, ElementType type, const void* const* rows, size_t count, size_t dim, float* dots) {
  WithType(type, [&]<ElementType kType>() { SumsToRows<PairSum::kDot, kType>(query, rows, count, dim, dots); });
}

void SquaredL2ToRows(const float* query, ElementType type, const void* const* rows, size_t count, size_t dim,
                     float* distances) {
  WithType(type,
           [&]<ElementType kType>() { SumsToRows<PairSum::kSquaredL2, kType>(query, rows, count, dim, distances); });
}

float DotOfPair(ElementType type, const void* a, const void* b, size_t dim) {
  return WithType(type, [&]<ElementType kType>() { return SumOfStored<PairSum::kDot, kType>(a, b, dim); });
}

float SquaredL2OfPair(ElementType type, const void* a, const void* b, size_t dim) {
  return WithType(type, [&]<ElementType kType>() { return SumOfStored<PairSum::kSquaredL2, kType>(a, b, dim); });
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
