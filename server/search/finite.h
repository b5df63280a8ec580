// Which elements no score can be computed from.
#pragma once

#include <cstdint>
#include <optional>

#include "server/kernels/kernels.h"

namespace embedding {

struct UnfitElement {
  int64_t row;
  int64_t column;
  double value;
};

// The first element of the vectors [num_vectors, dim], unpadded and of any alignment, that is NaN, infinite or, in F64,
// beyond +-FLT_MAX; nullopt if every vector fits the searches and CanonicalScore.
std::optional<UnfitElement> FirstUnfitElement(ElementType type, const void* vectors, int64_t num_vectors, int64_t dim);

}  // namespace embedding
