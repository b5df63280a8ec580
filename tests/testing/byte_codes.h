// What each of the 256 codes of an 8-bit dtype is worth, by numpy and ml_dtypes: golden/dtypes/make_widened.py.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace embedding::testing {

struct ByteCodes {
  const char* dtype;   // as in safetensors
  uint32_t bits[256];  // float32 bits of code 0, 1, ...; every NaN as 0x7fc00000
};

inline constexpr ByteCodes kByteCodes[] = {
#include "tests/golden/dtypes/widened.inc"
};

// Whether a value is that of a code, to the bit; of NaN only that it is one.
inline bool IsCode(double value, const ByteCodes& codes, size_t code) {
  const auto want = std::bit_cast<float>(codes.bits[code]);
  if (std::isnan(want)) return std::isnan(value);
  return std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(double{want});
}

}  // namespace embedding::testing
