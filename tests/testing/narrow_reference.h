// Rounding to 16-bit formats by their definition, sharing nothing with the kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "tests/testing/reference.h"

namespace embedding::testing {

// 16 bits of the given format nearest to value, ties to even, by trying neighbours of a truncated guess; nullopt if
// value is finite and rounds to infinity. Values that are not finite map to themselves.
inline std::optional<uint16_t> NearestOf16(double value, int mantissa_bits) {
  const uint16_t infinity = static_cast<uint16_t>(((1 << (15 - mantissa_bits)) - 1) << mantissa_bits);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  const double size = std::abs(value);
  // The largest number of the format that is not above size, by bisection: bit patterns grow with their values.
  uint16_t low = 0, high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (ReferenceFrom16(middle, mantissa_bits) <= size ? low : high) = middle;
  }
  const double below = ReferenceFrom16(low, mantissa_bits);
  // One step further, also past the largest finite number: where infinity would lie if the format went on.
  const double above = high == infinity ? 2 * below - ReferenceFrom16(static_cast<uint16_t>(low - 1), mantissa_bits)
                                        : ReferenceFrom16(high, mantissa_bits);
  const bool up = size - below > above - size || (size - below == above - size && (low & 1) != 0);
  const uint16_t nearest = up ? high : low;
  if (nearest == infinity) return std::nullopt;
  return static_cast<uint16_t>(sign | nearest);
}

}  // namespace embedding::testing
