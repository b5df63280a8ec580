// Widening, narrowing and looking at stored elements, per SIMD target.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "server/kernels/elements-inl.h"

#if defined(EMBEDDING_SERVER_KERNELS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBEDDING_SERVER_KERNELS_CONVERT_INL_H_
#undef EMBEDDING_SERVER_KERNELS_CONVERT_INL_H_
#else
#define EMBEDDING_SERVER_KERNELS_CONVERT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace embedding {
namespace HWY_NAMESPACE {

// Calls body(i, n, from_i, to_i) for consecutive pieces of `lanes` elements: n = lanes, but for the last piece, which
// works on copies padded with zeros, so that nothing is read or written past the ends.
template <size_t kFromSize, size_t kToSize, class Body>
HWY_INLINE void ForEachPiece(const uint8_t* from, uint8_t* to, size_t count, size_t lanes, const Body& body) {
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, lanes, from + i * kFromSize, to + i * kToSize);
  if (i == count) return;
  alignas(64) uint8_t last_from[64 * 2] = {};
  alignas(64) uint8_t last_to[64 * 2];
  std::memcpy(last_from, from + i * kFromSize, (count - i) * kFromSize);
  body(i, count - i, last_from, last_to);
  std::memcpy(to + i * kToSize, last_to, (count - i) * kToSize);
}

template <ElementType kType>
void WidenFrom(const uint8_t* from, size_t count, float* to) {
  const hn::ScalableTag<float> df;
  ForEachPiece<ElementSize(kType), 4>(from, reinterpret_cast<uint8_t*>(to), count, hn::Lanes(df),
                                      [&](size_t, size_t, const uint8_t* in, uint8_t* out)
                                          HWY_ATTR { StoreAny(LoadF32<kType>(df, in), df, out); });
}

// float32 to binary16 bits, to nearest even; NaN becomes quiet and keeps the upper bits of its payload, as F16C does.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> F32ToF16(DF df, hn::Vec<DF> v) {
  const hn::Rebind<uint16_t, DF> du16;
#if EMBEDDING_HAVE_F16C
  (void)df;
  return hn::BitCast(du16, hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), v));
#else
  const hn::RebindToSigned<DF> di;
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(di, v);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto sign = hn::And(hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(du, v))), hn::Set(di, 0x8000));
  // Normal results: rebias the exponent, add half a unit (less one, unless the kept part is odd), drop 13 bits. A carry
  // into the exponent is right, up to infinity.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(di, -(112 << 23) + 0xfff)), odd));
  // Subnormal results: adding 0.5 leaves multiples of 2^-24, rounded by the adder, in the low bits.
  const auto half = hn::Set(df, 0.5f);
  const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(df, magnitude), half)), hn::BitCast(di, half));
  const auto payload = hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 0x3ff)), hn::Set(di, 0x7e00));
  const auto special = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), payload, hn::Set(di, 0x7c00));
  auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 113 << 23)), subnormal, normal);
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477fffff)), special, out);
  return hn::DemoteTo(du16, hn::Or(out, sign));
#endif
}

// float32 to bfloat16 bits, to nearest even; NaN becomes quiet and keeps the upper bits of its payload.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> F32ToBF16(DF df, hn::Vec<DF> v) {
  const hn::RebindToSigned<DF> di;
  const hn::RebindToUnsigned<DF> du;
  (void)df;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(hn::BitCast(di, v), hn::Set(di, 0x7fffffff));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::BitCast(di, hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd)));
  const auto quiet = hn::BitCast(di, hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u)));
  const auto out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), quiet, rounded);
  return hn::DemoteTo(hn::Rebind<uint16_t, DF>(), out);
}

template <ElementType kType>
size_t NarrowTo(const float* from, size_t count, uint8_t* to) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> du16;
  const hn::RebindToSigned<decltype(df)> di;
  const auto infinity = hn::Set(di, kType == ElementType::kF16 ? 0x7c00 : 0x7f80);
  size_t first_overflow = count;
  ForEachPiece<4, 2>(reinterpret_cast<const uint8_t*>(from), to, count, hn::Lanes(df),
                     [&](size_t i, size_t, const uint8_t* in, uint8_t* out) HWY_ATTR {
                       const auto value = LoadAny(df, in);
                       hn::Vec<decltype(du16)> bits;
                       if constexpr (kType == ElementType::kF16) {
                         bits = F32ToF16(df, value);
                       } else {
                         bits = F32ToBF16(df, value);
                       }
                       StoreAny(bits, du16, out);
                       const auto magnitude = hn::And(hn::BitCast(di, value), hn::Set(di, 0x7fffffff));
                       const auto became = hn::And(hn::PromoteTo(di, bits), hn::Set(di, 0x7fff));
                       const auto overflow =
                           hn::And(hn::Lt(magnitude, hn::Set(di, 0x7f800000)), hn::Eq(became, infinity));
                       if (HWY_UNLIKELY(first_overflow == count && !hn::AllFalse(di, overflow))) {
                         first_overflow = i + static_cast<size_t>(hn::FindFirstTrue(di, overflow));
                       }
                     });
  return first_overflow;
}

// Lanes(df) doubles to float32, to nearest even; beyond its range infinity, as the language and the x86 instructions
// do.
template <class DF>
HWY_INLINE hn::Vec<DF> F64ToF32(DF df, const uint8_t* from) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // Highway's portable targets saturate instead.
  float narrow[hn::MaxLanes(DF())];
  for (size_t i = 0; i < hn::Lanes(df); ++i) {
    double value;
    std::memcpy(&value, from + i * sizeof(value), sizeof(value));
    narrow[i] = static_cast<float>(value);
  }
  return hn::LoadU(df, narrow);
#else
  return hn::DemoteTo(df, LoadAny(hn::Rebind<double, DF>(), from));
#endif
}

void WidenToF32(ElementType type, const void* from, size_t count, float* to) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  switch (type) {
    case ElementType::kF32:
      if (count > 0) std::memcpy(to, from, count * sizeof(float));
      return;
    case ElementType::kF16:
      return WidenFrom<ElementType::kF16>(bytes, count, to);
    case ElementType::kBF16:
      return WidenFrom<ElementType::kBF16>(bytes, count, to);
    case ElementType::kI8:
      return WidenFrom<ElementType::kI8>(bytes, count, to);
    case ElementType::kU8:
      return WidenFrom<ElementType::kU8>(bytes, count, to);
    case ElementType::kF8E4M3:
      return WidenFrom<ElementType::kF8E4M3>(bytes, count, to);
    case ElementType::kF8E5M2:
      return WidenFrom<ElementType::kF8E5M2>(bytes, count, to);
    case ElementType::kF64:
      break;
  }
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  ForEachPiece<8, 4>(bytes, reinterpret_cast<uint8_t*>(to), count, hn::Lanes(dd),
                     [&](size_t, size_t, const uint8_t* in, uint8_t* out)
                         HWY_ATTR { StoreAny(F64ToF32(df, in), df, out); });
}

size_t NarrowFromF32(const float* from, size_t count, ElementType type, void* to) {
  auto* bytes = static_cast<uint8_t*>(to);
  if (type == ElementType::kF16) return NarrowTo<ElementType::kF16>(from, count, bytes);
  if (type == ElementType::kBF16) return NarrowTo<ElementType::kBF16>(from, count, bytes);
  if (count > 0) std::memcpy(to, from, count * sizeof(float));
  return count;
}

size_t NarrowF64ToF32(const double* from, size_t count, float* to) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const auto infinity = hn::Set(dd, hwy::HighestValue<double>());
  size_t first_overflow = count;
  ForEachPiece<8, 4>(reinterpret_cast<const uint8_t*>(from), reinterpret_cast<uint8_t*>(to), count, hn::Lanes(dd),
                     [&](size_t i, size_t, const uint8_t* in, uint8_t* out) HWY_ATTR {
                       const auto value = LoadAny(dd, in);
                       const auto narrow = F64ToF32(df, in);
                       StoreAny(narrow, df, out);
                       const auto finite = hn::Le(hn::Abs(value), infinity);
                       const auto became = hn::Gt(hn::Abs(hn::PromoteTo(dd, narrow)), infinity);
                       const auto overflow = hn::And(finite, became);
                       if (HWY_UNLIKELY(first_overflow == count && !hn::AllFalse(dd, overflow))) {
                         first_overflow = i + static_cast<size_t>(hn::FindFirstTrue(dd, overflow));
                       }
                     });
  return first_overflow;
}

// The largest magnitude of count elements, as the integer that its bits make without the sign: it is 0 for zeros, and
// reaches the exponent of ones where infinity or NaN is met.
template <typename T>
T LargestMagnitude(const uint8_t* from, size_t count) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto magnitude_bits = hn::Set(d, hwy::LimitsMax<T>());
  const auto magnitudes = [&](size_t j) HWY_ATTR { return hn::And(LoadAny(d, from + j * sizeof(T)), magnitude_bits); };
  auto max0 = hn::Zero(d);
  auto max1 = hn::Zero(d);
  auto max2 = hn::Zero(d);
  auto max3 = hn::Zero(d);
  size_t j = 0;
  for (; j + 4 * lanes <= count; j += 4 * lanes) {
    max0 = hn::Max(max0, magnitudes(j));
    max1 = hn::Max(max1, magnitudes(j + lanes));
    max2 = hn::Max(max2, magnitudes(j + 2 * lanes));
    max3 = hn::Max(max3, magnitudes(j + 3 * lanes));
  }
  for (; j + lanes <= count; j += lanes) max0 = hn::Max(max0, magnitudes(j));
  T lanes_of_max[64 / sizeof(T)];
  hn::StoreU(hn::Max(hn::Max(max0, max1), hn::Max(max2, max3)), d, lanes_of_max);
  T largest = 0;
  for (size_t i = 0; i < lanes; ++i) largest = std::max(largest, lanes_of_max[i]);
  for (; j < count; ++j) {
    T bits;
    std::memcpy(&bits, from + j * sizeof(T), sizeof(T));
    largest = std::max(largest, static_cast<T>(bits & hwy::LimitsMax<T>()));
  }
  return largest;
}

// Row by row costs more than reading: the rows are looked at together first, and by themselves only where one of them
// may be what is looked for.
template <typename T>
RowScan Scan(const uint8_t* rows, size_t num_rows, size_t dim, T infinity, uint8_t* non_finite) {
  const bool all_finite = LargestMagnitude<T>(rows, num_rows * dim) < infinity;
  RowScan found;
  for (size_t i = 0; i < num_rows; ++i) {
    const uint8_t* row = rows + i * dim * sizeof(T);
    if (non_finite != nullptr) non_finite[i] = 0;
    if (all_finite) {
      T first;
      std::memcpy(&first, row, sizeof(T));
      if ((first & hwy::LimitsMax<T>()) != 0) continue;
    }
    const T largest = LargestMagnitude<T>(row, dim);
    if (largest == 0) ++found.zero_rows;
    if (largest < infinity) continue;
    ++found.non_finite_rows;
    if (non_finite != nullptr) non_finite[i] = 1;
  }
  return found;
}

// Integers: a row is zero where no bit is set, and always finite.
RowScan ScanIntegers(const uint8_t* rows, size_t num_rows, size_t dim, uint8_t* non_finite) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  RowScan found;
  for (size_t i = 0; i < num_rows; ++i) {
    const uint8_t* row = rows + i * dim;
    auto seen = hn::Zero(d);
    size_t j = 0;
    for (; j + lanes <= dim; j += lanes) seen = hn::Or(seen, hn::LoadU(d, row + j));
    uint8_t lanes_seen[64];
    hn::StoreU(seen, d, lanes_seen);
    uint8_t any = 0;
    for (size_t lane = 0; lane < lanes; ++lane) any = static_cast<uint8_t>(any | lanes_seen[lane]);
    for (; j < dim; ++j) any = static_cast<uint8_t>(any | row[j]);
    if (any == 0) ++found.zero_rows;
  }
  if (non_finite != nullptr) std::memset(non_finite, 0, num_rows);
  return found;
}

RowScan ScanRows(ElementType type, const void* rows, size_t num_rows, size_t dim, uint8_t* non_finite) {
  const auto* bytes = static_cast<const uint8_t*>(rows);
  switch (type) {
    case ElementType::kF32:
      return Scan<int32_t>(bytes, num_rows, dim, 0x7f800000, non_finite);
    case ElementType::kF16:
      return Scan<int16_t>(bytes, num_rows, dim, 0x7c00, non_finite);
    case ElementType::kBF16:
      return Scan<int16_t>(bytes, num_rows, dim, 0x7f80, non_finite);
    case ElementType::kI8:
    case ElementType::kU8:
      return ScanIntegers(bytes, num_rows, dim, non_finite);
    case ElementType::kF8E4M3:
      return Scan<int8_t>(bytes, num_rows, dim, 0x7f, non_finite);
    case ElementType::kF8E5M2:
      return Scan<int8_t>(bytes, num_rows, dim, 0x7c, non_finite);
    case ElementType::kF64:
      break;
  }
  return Scan<int64_t>(bytes, num_rows, dim, 0x7ff0000000000000, non_finite);
}

}  // namespace HWY_NAMESPACE
}  // namespace embedding
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
