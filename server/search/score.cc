#include "server/search/score.h"

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>

#include "server/kernels/canonical.h"

namespace embedding {

float ScoreFromSums(Metric metric, double sum, double aa, double bb) {
  double score = sum;
  switch (metric) {
    case Metric::kCosine:
      if (aa == 0 || bb == 0) return 0;
      score = std::clamp(sum / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0);
      break;
    case Metric::kDot:
      break;
    case Metric::kEuclidean:
      score = std::sqrt(sum);
      break;
  }
  return static_cast<float>(std::clamp(score, -double{FLT_MAX}, double{FLT_MAX}));
}

CanonicalQuery::CanonicalQuery(Metric metric, VectorView vector, int64_t dim)
    : metric_(metric), values_(static_cast<size_t>(dim)) {
  assert(dim >= 1);
  WidenToF64(vector.type, vector.data, values_.size(), values_.data());
  if (metric != Metric::kCosine) return;
  const void* row = values_.data();
  CanonicalSquaredNorms(ElementType::kF64, &row, 1, values_.size(), &squared_norm_);
}

void CanonicalQuery::Score(ElementType type, const void* const* rows, size_t num_rows, const double* squared_norms,
                           float* scores) const {
  constexpr size_t kPiece = 64;  // rows whose sums lie on the stack
  double sums[kPiece];
  double own_norms[kPiece];
  for (size_t begin = 0; begin < num_rows; begin += kPiece) {
    const size_t n = std::min(kPiece, num_rows - begin);
    if (metric_ == Metric::kEuclidean) {
      CanonicalSquaredL2OneToMany(values_.data(), type, rows + begin, n, values_.size(), sums);
    } else {
      CanonicalDotOneToMany(values_.data(), type, rows + begin, n, values_.size(), sums);
    }
    const double* norms = squared_norms == nullptr ? own_norms : squared_norms + begin;
    if (metric_ == Metric::kCosine && squared_norms == nullptr) {
      CanonicalSquaredNorms(type, rows + begin, n, values_.size(), own_norms);
    }
    for (size_t i = 0; i < n; ++i) {
      scores[begin + i] = ScoreFromSums(metric_, sums[i], squared_norm_, metric_ == Metric::kCosine ? norms[i] : 0);
    }
  }
}

float CanonicalScore(Metric metric, VectorView a, VectorView b, int64_t dim) {
  float score = 0;
  CanonicalQuery(metric, a, dim).Score(b.type, &b.data, 1, nullptr, &score);
  return score;
}

}  // namespace embedding
