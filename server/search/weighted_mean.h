// The weighted mean of vectors in double: a query by examples, or a side of a Similarity that is reduced.
#pragma once

#include <cstdint>
#include <vector>

#include "server/search/score.h"

namespace embedding {

// sum of weight * vector, in the order of the calls, over the sum of |weight|. Not thread-safe.
//
// As gensim's KeyedVectors.get_mean_vector (4.3), there in float32: pre_normalize is AddUnit, and a vector that adds
// nothing still adds its weight.
class WeightedMean {
 public:
  // dim >= 1.
  explicit WeightedMean(int64_t dim) : sums_(static_cast<size_t>(dim)), element_(static_cast<size_t>(dim)) {}

  // vector: [dim], finite, F64 elements within +-FLT_MAX; weight: finite, within +-FLT_MAX.
  void Add(VectorView vector, double weight);
  // Adds the vector over its length; a zero vector adds nothing.
  void AddUnit(VectorView vector, double weight);

  // to: [dim], within +-FLT_MAX, so that it may be a query itself. Needs a weight that was not 0.
  void Write(double* to) const;

 private:
  void AddElements(double divisor, double weight);

  std::vector<double> sums_;
  std::vector<double> element_;  // the vector being added
  double total_weight_ = 0;
};

}  // namespace embedding
