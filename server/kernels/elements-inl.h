// Loads of stored elements into float32 lanes, per SIMD target.
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "server/kernels/kernels.h"

#if defined(EMBEDDING_SERVER_KERNELS_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_ELEMENTS_INL_H_
#undef EMBEDDING_SERVER_KERNELS_ELEMENTS_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_ELEMENTS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// F16C comes with AVX2 and better; elsewhere half precision is widened and narrowed by integer arithmetic of our own,
// since Highway 1.0.3 emulates neither infinity nor NaN, and truncates when it narrows.
#undef EMBEDDING_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define EMBEDDING_HAVE_F16C 1
#else
#define EMBEDDING_HAVE_F16C 0
#endif

// Lanes(d) elements from, and to, an address of any alignment.
template <class D>
HWY_INLINE hn::Vec<D> LoadAny(D d, const void* from) {
  return hn::LoadU(d, static_cast<const hn::TFromD<D>*>(from));
}

template <class D>
HWY_INLINE void StoreAny(hn::Vec<D> v, D d, void* to) {
  hn::StoreU(v, d, static_cast<hn::TFromD<D>*>(to));
}

// binary16 bits to float32, exact; NaN becomes quiet and keeps its payload, as F16C does.
template <class DF>
HWY_INLINE hn::Vec<DF> F16ToF32(DF df, hn::Vec<hn::Rebind<uint16_t, DF>> bits) {
#if EMBEDDING_HAVE_F16C
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), bits));
#else
  const hn::RebindToSigned<DF> di;
  const auto bits32 = hn::PromoteTo(di, bits);
  const auto magnitude = hn::And(bits32, hn::Set(di, 0x7fff));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits32, hn::Set(di, 0x8000)));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  // The exponent's bias grows from 15 to 127: times 2^112, which is exact for subnormals too.
  const auto finite = hn::BitCast(di, hn::Mul(hn::BitCast(df, shifted), hn::Set(df, 0x1p112f)));
  const auto quiet = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7c00)), hn::Set(di, 0x400000), hn::Zero(di));
  const auto special = hn::Or(hn::Or(shifted, hn::Set(di, 0x7f800000)), quiet);
  const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), special, finite);
  return hn::BitCast(df, hn::Or(value, sign));
#endif
}

// bfloat16 bits to float32: the upper half of its bits.
template <class DF>
HWY_INLINE hn::Vec<DF> BF16ToF32(DF df, hn::Vec<hn::Rebind<uint16_t, DF>> bits) {
  const hn::RebindToSigned<DF> di;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(di, bits)));
}

// Bits of an OCP E4M3 to float32, exact; NaN (all ones but the sign) becomes a quiet one.
template <class DF>
HWY_INLINE hn::Vec<DF> F8E4M3ToF32(DF df, hn::Vec<hn::Rebind<uint8_t, DF>> bits) {
  const hn::RebindToSigned<DF> di;
  const auto bits32 = hn::PromoteTo(di, bits);
  const auto magnitude = hn::And(bits32, hn::Set(di, 0x7f));
  const auto sign = hn::ShiftLeft<24>(hn::And(bits32, hn::Set(di, 0x80)));
  // The exponent's bias grows from 7 to 127: times 2^120, which is exact for subnormals too.
  const auto finite = hn::BitCast(di, hn::Mul(hn::BitCast(df, hn::ShiftLeft<20>(magnitude)), hn::Set(df, 0x1p120f)));
  const auto is_nan = hn::Eq(magnitude, hn::Set(di, 0x7f));
  return hn::BitCast(df, hn::Or(hn::IfThenElse(is_nan, hn::Set(di, 0x7fc00000), finite), sign));
}

// Bits of an OCP E5M2 to float32, exact: it is the upper half of a binary16.
template <class DF>
HWY_INLINE hn::Vec<DF> F8E5M2ToF32(DF df, hn::Vec<hn::Rebind<uint8_t, DF>> bits) {
  return F16ToF32(df, hn::ShiftLeft<8>(hn::PromoteTo(hn::Rebind<uint16_t, DF>(), bits)));
}

// Lanes(df) float32 values of stored elements at `from`.
template <ElementType kType, class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF df, const uint8_t* from) {
  static_assert(kType != ElementType::kF64, "doubles do not fit float32 lanes");
  if constexpr (kType == ElementType::kF32) {
    return LoadAny(df, from);
  } else if constexpr (kType == ElementType::kF16) {
    return F16ToF32(df, LoadAny(hn::Rebind<uint16_t, DF>(), from));
  } else if constexpr (kType == ElementType::kBF16) {
    return BF16ToF32(df, LoadAny(hn::Rebind<uint16_t, DF>(), from));
  } else if constexpr (kType == ElementType::kI8) {
    return hn::ConvertTo(df, hn::PromoteTo(hn::RebindToSigned<DF>(), LoadAny(hn::Rebind<int8_t, DF>(), from)));
  } else if constexpr (kType == ElementType::kU8) {
    return hn::ConvertTo(df, hn::PromoteTo(hn::RebindToSigned<DF>(), LoadAny(hn::Rebind<uint8_t, DF>(), from)));
  } else if constexpr (kType == ElementType::kF8E4M3) {
    return F8E4M3ToF32(df, LoadAny(hn::Rebind<uint8_t, DF>(), from));
  } else {
    return F8E5M2ToF32(df, LoadAny(hn::Rebind<uint8_t, DF>(), from));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
