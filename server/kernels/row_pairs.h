// Float32 closeness of rows that lie anywhere, for walks through a graph: fast, with the errors of candidates.h, and
// used only to choose candidates, whose scores are then computed canonically.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/kernels/kernels.h"

namespace embedding {

// dots[i] = sum_j query[j] * rows[i][j], i in [0, count). query: [dim] float32; rows: [count] addresses of rows of dim
// elements of any type but F64, at any alignment. dim >= 1.
void DotToRows(const float* query, ElementType type, const void* const* rows, size_t count, size_t dim, float* dots);

// distances[i] = sum_j (query[j] - rows[i][j])^2.
void SquaredL2ToRows(const float* query, ElementType type, const void* const* rows, size_t count, size_t dim,
                     float* distances);

// sum_j a[j] * b[j], both stored as `type`, any but F64.
float DotOfPair(ElementType type, const void* a, const void* b, size_t dim);

// sum_j (a[j] - b[j])^2.
float SquaredL2OfPair(ElementType type, const void* a, const void* b, size_t dim);

}  // namespace embedding
