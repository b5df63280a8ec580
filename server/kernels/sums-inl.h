// Sums over the lanes of four vectors at once, per SIMD target.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#if defined(EMBEDDING_SERVER_KERNELS_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_SUMS_INL_H_
#undef EMBEDDING_SERVER_KERNELS_SUMS_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_SUMS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[i] = sum of the lanes of v_i, for lanes of 32 bits. Four at once share their shuffles: a third of the work of four
// sums, which shows where rows are short.
template <class D>
HWY_INLINE void SumsOfLanes(D d, hn::Vec<D> v0, hn::Vec<D> v1, hn::Vec<D> v2, hn::Vec<D> v3, hn::TFromD<D>* to) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  static_assert(sizeof(hn::TFromD<D>) == 4);
  if constexpr (kLanes < 4) {
    to[0] = hn::GetLane(hn::SumOfLanes(d, v0));
    to[1] = hn::GetLane(hn::SumOfLanes(d, v1));
    to[2] = hn::GetLane(hn::SumOfLanes(d, v2));
    to[3] = hn::GetLane(hn::SumOfLanes(d, v3));
  } else {
#if HWY_TARGET != HWY_SCALAR
    // In each block of 4 lanes: first (v0, v1) and (v2, v3) summed by lanes 2 apart, then all four summed.
    using Pair = std::conditional_t<std::is_same_v<hn::TFromD<D>, float>, double, int64_t>;
    const hn::Repartition<Pair, D> pairs;
    const auto v01 = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1)));
    const auto v23 = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3)));
    const auto blocks = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, v01, v23)),
                                hn::BitCast(d, hn::InterleaveUpper(pairs, v01, v23)));
    if constexpr (kLanes == 4) {
      hn::StoreU(blocks, d, to);
    } else {
      const hn::Half<D> half;
      const auto halves = hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks));
      if constexpr (kLanes == 8) {
        hn::StoreU(halves, half, to);
      } else {
        const hn::Half<decltype(half)> quarter;
        hn::StoreU(hn::Add(hn::LowerHalf(quarter, halves), hn::UpperHalf(quarter, halves)), quarter, to);
      }
    }
#endif
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
