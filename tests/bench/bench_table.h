// The table that all servers of the lookup benchmarks hold, and that their client checks answers against.
#pragma once

#include <cstdint>

namespace embedding::bench {

// Element (row, column): every row differs from its neighbours, every value is exact in F32.
inline float ElementAt(int64_t row, int64_t column) { return static_cast<float>((row * 31 + column * 7) % 1009 - 504); }

inline void FillRow(int64_t row, int64_t dim, float* to) {
  for (int64_t j = 0; j < dim; ++j) to[j] = ElementAt(row, j);
}

}  // namespace embedding::bench
