// The canonical score: the one value that a metric has for two vectors, on every machine.
//
// In double from the stored values: 8 partial sums (element j to sum j mod 8), combined as
// ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)), never fused, never reassociated; cosine = ab / (sqrt(aa) * sqrt(bb)), clamped to
// [-1, 1], 0 if aa or bb is 0; euclidean = sqrt of the sum of (a-b)^2; rounded once to F32, beyond its range +-FLT_MAX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

// The last step, from canonical sums (kernels/canonical.h). sum: of the products for cosine and dot, of the squared
// differences for euclidean. aa, bb: sums of the squares, read for cosine alone.
float ScoreFromSums(Metric metric, double sum, double aa, double bb);

// A vector widened to double once, to be scored against many. Immutable, so it may be shared between threads.
class CanonicalQuery {
 public:
  // vector: [dim], finite, not needed any more after the call.
  CanonicalQuery(Metric metric, VectorView vector, int64_t dim);

  Metric metric() const { return metric_; }
  // The vector, as doubles; as long as this object lives.
  VectorView view() const { return {values_.data(), ElementType::kF64}; }

  // scores[i] = canonical score of the query and rows[i], for i in [0, num_rows). rows: addresses of vectors of dim
  // elements. squared_norms: [num_rows], the rows' canonical sums of squares where the caller keeps them, else null;
  // read for cosine alone.
  void Score(ElementType type, const void* const* rows, size_t num_rows, const double* squared_norms,
             float* scores) const;

 private:
  Metric metric_;
  std::vector<double> values_;
  double squared_norm_ = 0;  // cosine alone
};

}  // namespace embedding
