#include "server/search/weighted_mean.h"

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>

#include "server/kernels/canonical.h"

namespace embedding {

void WeightedMean::Add(VectorView vector, double weight) {
  total_weight_ += std::abs(weight);
  WidenToF64(vector.type, vector.data, element_.size(), element_.data());
  AddElements(1, weight);
}

void WeightedMean::AddUnit(VectorView vector, double weight) {
  total_weight_ += std::abs(weight);
  WidenToF64(vector.type, vector.data, element_.size(), element_.data());
  double squares = 0;
  const void* row = element_.data();
  CanonicalSquaredNorms(ElementType::kF64, &row, 1, element_.size(), &squares);
  if (squares != 0) AddElements(std::sqrt(squares), weight);
}

void WeightedMean::AddElements(double divisor, double weight) {
  for (size_t j = 0; j < sums_.size(); ++j) sums_[j] += weight * (element_[j] / divisor);
}

void WeightedMean::Write(double* to) const {
  assert(total_weight_ > 0);
  // The mean of numbers within a range lies within it, but for its last rounding.
  std::transform(sums_.begin(), sums_.end(), to,
                 [this](double sum) { return std::clamp(sum / total_weight_, -double{FLT_MAX}, double{FLT_MAX}); });
}

}  // namespace embedding
