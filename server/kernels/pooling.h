// Sums and maxima of rows, column by column, and unit vectors: what pooled and normalised lookups are made of.
//
// Each column is one chain of additions in double, in the order of the calls, so the results have the same bits on
// every SIMD target: vectors lie across columns and never along a sum. A product of two float32 is exact in double;
// each addition rounds once. Every pointer to floats may be unaligned; ranges must not overlap.
#pragma once

#include <cstddef>

namespace embedding {

// sums[j] += weight * row[j], j in [0, count).
void AddScaled(const float* row, size_t count, double weight, double* sums);

// maxima[j] = row[j] if that is greater, j in [0, count). No NaN; of +0 and -0 the first one stays.
void KeepMaxima(const float* row, size_t count, float* maxima);

// values[j] /= divisor, j in [0, count).
void DivideAll(size_t count, double divisor, double* values);

// values[j] = values[j] / divisor in double, rounded to nearest even, j in [0, count).
void DivideAllF32(size_t count, double divisor, float* values);

}  // namespace embedding
