// From a float32 closeness (kernels/candidates.h) to bounds of the canonical score: why the candidate pass loses
// nothing.
//
// Notation: u = 2^-24; d = dim <= 2^20; q the query, x a row, both exact; f the float32 query that the kernel gets;
// n the stored norm of x; v the kernel's value; s the canonical F32 score. Row norms lie in [2^-60, 2^60] and are
// stored within a relative error of 2^-23, or x is zero and n = 2^-60 (row_norms.h).
//
// Dot and cosine. f = fl(2^t q), t chosen so that F = 2^t |q| lies in [1, 2): nothing overflows, |v| < 2^62.
// e = |2^t q - f| is computed in double (0 for an F32, F16 or BF16 query). With g = d*u / (1 - d*u) and
// Cauchy-Schwarz, sum_j |f_j x_j| <= |f| |x| <= (F + e) |x|, so (Higham 2002, section 3.1)
//   |v - f.x|         <= g (F + e) |x| + d 2^-149               the kernel, any order of additions
//   |f.x - 2^t q.x|   <= e |x|                                  the query's rounding
//   |2^t s - 2^t q.x| <= (u + (d + 8) 2^-52) F |x| + 2^(t-150)  dot: the canonical sum in double, its rounding to F32
// |q| >= 2^-60 gives 2^t <= 2^61, hence 2^(t-150) <= 2^-89 <= 2^-29 |x|; likewise d 2^-149 <= 2^-69 |x|. In cosine the
// stored norm divides: |q.x| |1/n - 1/|x|| <= 2^-22 |q|, and s is within u + (2 d + 16) 2^-52 of the exact cosine (the
// clamp to [-1, 1] only brings it closer). All is contained in one margin m, with |x| <= (1 + 2^-22) n:
//   m = (1 + 2^-20) (g (F + e) + e + F (2^-21 + (d + 8) 2^-51) + 2^-28)
//   dot:    |v - 2^t s| <= m n        closeness = 2^t s in [v - m n, v + m n]
//   cosine: |v / n - F s| <= m        closeness = F s   in [v / n - m, v / n + m]
// A zero row has v = s = 0 and satisfies both.
//
// Euclidean. f = fl(q), e = |q - f|; -v = S approximates |f - x|^2 with g for n = d + 2 roundings and h = d 2^-149 for
// underflow: |f - x|^2 in [(S - h) / (1 + g), (S + h) / (1 - g)]. |q - x| differs from |f - x| by at most e, and s from
// |q - x| by at most the factor 1 +- 2^-22 and 2^-149. |q| <= 2^60 keeps S below 2^123. closeness = -s.
//
// In each case closeness is a growing function of s (a falling one of a distance), so order and ties are those of s: a
// row whose upper bound is below the k-th best lower bound has at least k rows strictly closer than itself, whatever
// their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/search/metric.h"
#include "server/search/score.h"

namespace embedding {

// A tau that rules out no row whose canonical score reaches the threshold (finite): the closeness of the threshold
// itself, rounded down; -infinity where it lies below every closeness. scale: closeness = scale * s for dot (2^t) and
// cosine (F), known within 2^-31 of itself; not read for euclidean.
float TauOfThreshold(Metric metric, double scale, float threshold);

// One query's bounds. Immutable, so it may be shared between threads.
class CandidateBound {
 public:
  // nullopt where no bound holds: dim > 2^20, or the query's length outside of [kMinNorm, kMaxNorm] (euclidean: above
  // kMaxNorm). query: [dim], finite, not needed any more after the call.
  static std::optional<CandidateBound> Of(Metric metric, VectorView query, int64_t dim);

  // The query as the kernel gets it: [dim].
  const std::vector<float>& query() const { return query_; }

  struct Range {
    float lower;
    float upper;
  };
  // Bounds of the closeness of a row with this kernel value and stored norm (not NaN), rounded outwards.
  Range RangeOf(float value, float norm) const;

  // A row with value < a + b * norm, computed in float32 as SelectAtLeast does, has a closeness below tau.
  struct Cut {
    float a;
    float b;
  };
  Cut CutFor(float tau) const;

  // As TauOfThreshold, for this query.
  float TauOf(float threshold) const { return TauOfThreshold(metric_, scale_, threshold); }

 private:
  Metric metric_ = Metric::kCosine;
  std::vector<float> query_;
  double scale_ = 1;      // closeness = scale * s for dot and cosine: 2^t; F
  double margin_ = 0;     // m
  double g_ = 0;          // euclidean: g for d + 2
  double e_ = 0;          // e
  double underflow_ = 0;  // h
};

}  // namespace embedding
