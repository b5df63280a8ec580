// The canonical score: the one value that a metric has for two vectors, on every machine.
//
// In double from the stored values: 8 partial sums (element j to sum j mod 8), combined as
// ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)), never fused, never reassociated; cosine = ab / (sqrt(aa) * sqrt(bb)), clamped to
// [-1, 1], 0 if aa or bb is 0; euclidean = sqrt of the sum of (a-b)^2; rounded once to F32, beyond its range +-FLT_MAX.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/kernels/kernels.h"
#include "server/search/metric.h"

namespace embedding {

// A borrowed vector of `dim` elements (dim is given beside it). data may be unaligned.
struct VectorView {
  const void* data = nullptr;
  ElementType type = ElementType::kF32;
};

// a, b: [dim], finite; F64 elements within +-FLT_MAX. dim >= 1.
float CanonicalScore(Metric metric, VectorView a, VectorView b, int64_t dim);

}  // namespace embedding
