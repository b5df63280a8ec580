// Double sums whose bits are the same on every SIMD target: what a score is made of.
//
// A sum over j in [0, dim) is kept as 8 partial sums, element j in sum j mod 8, each addition rounded to double,
// products rounded before they are added (never fused), combined as ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)). Stored
// elements are widened to double exactly. Pointers may be unaligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/kernels/kernels.h"

namespace embedding {

// to[i] = from[i] as double, exactly; i in [0, count). NaN stays NaN. Ranges must not overlap.
void WidenToF64(ElementType type, const void* from, size_t count, double* to);

// dots[i] = canonical sum over j of query[j] * rows[i][j]. query: [dim]; rows: [num_rows] addresses of rows of dim
// elements; dots: [num_rows].
void CanonicalDotOneToMany(const double* query, ElementType type, const void* const* rows, size_t num_rows, size_t dim,
                           double* dots);

// sums[i] = canonical sum over j of (query[j] - rows[i][j])^2.
void CanonicalSquaredL2OneToMany(const double* query, ElementType type, const void* const* rows, size_t num_rows,
                                 size_t dim, double* sums);

// norms[i] = canonical sum over j of rows[i][j]^2.
void CanonicalSquaredNorms(ElementType type, const void* const* rows, size_t num_rows, size_t dim, double* norms);

}  // namespace embedding
