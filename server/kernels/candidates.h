// Float32 closeness of queries to rows, fast and with a stated error: it only chooses candidates, whose scores are then
// computed canonically.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/kernels/kernels.h"

namespace embedding {

// Queries as float32, query q at data + q * stride.
struct QueryBlock {
  const float* data = nullptr;
  size_t stride = 0;  // elements, >= dim
  size_t count = 0;
};

// Rows of any type but F64, unpadded, row i at data + i * dim elements; any alignment.
struct RowBlock {
  ElementType type = ElementType::kF32;
  const void* data = nullptr;
  size_t count = 0;
  size_t dim = 0;  // >= 1
};

// closeness[q * rows.count + i] = dot(query q, row i), in float32 in an order of additions that depends on the target.
// Error, for any order, fused or not (Higham 2002, section 3.1), where nothing overflows:
//   |closeness - exact| <= g * sum_j |query[j] * row[j]| + dim * 2^-149, g = dim*u / (1 - dim*u), u = 2^-24;
// the last term holds what underflow loses.
void DotManyToMany(const QueryBlock& queries, const RowBlock& rows, float* closeness);

// closeness[q * rows.count + i] = -(sum_j (query[j] - row[j])^2), from differences, so that near rows lose nothing to
// cancellation. Error: |closeness - exact| <= g * exact + dim * 2^-149, g = n*u / (1 - n*u), n = dim + 2.
void NegativeSquaredL2ManyToMany(const QueryBlock& queries, const RowBlock& rows, float* closeness);

// Writes to `indices`, ascending, each i in [0, count) with closeness[i] >= a + b * norms[i] in float32 (product and
// sum rounded), and returns how many. A NaN on either side selects nothing. indices: [count].
size_t SelectAtLeast(const float* closeness, const float* norms, size_t count, float a, float b, uint32_t* indices);

}  // namespace embedding
