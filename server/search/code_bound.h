// From the integer dot product of two codes to bounds of the canonical score: why the pass over codes loses nothing.
//
// Notation as in candidate_bound.h: u = 2^-24, F = 2^t |q| in [1, 2) for dot and cosine, t = 0 and F = |q| for
// euclidean, n the stored norm of a row x. kernels/codes.h gives x_j - mean_j = (alpha c_j + r_j) / inverse_scale_j.
// With Q_j = 2^t q_j / inverse_scale_j, coded as Q_j = b u_j + e_j, and D = sum_j u_j c_j, an exact integer,
//   2^t q.x = 2^t q.mean + sum_j Q_j (alpha c_j + r_j)
//           = 2^t q.mean + alpha b D + alpha sum_j e_j c_j + sum_j Q_j r_j
// so by Cauchy-Schwarz, with R >= |r| the stored error and C >= |c| of every row,
//   |2^t q.x - (2^t q.mean + alpha b D)| <= alpha |e| C + |Q| R.
// On top of it lie roundings: of 2^t q.mean in double (2^-30 F |mean| is plenty for 2^20 columns), of the canonical
// score and the stored norm (as in candidate_bound.h), and where CutFor works in float32, a few u of every term. The
// terms are bounded by |alpha b D| <= F (n + |mean|) + |Q| R + alpha |e| C; each coefficient below is moved by 2^-18 to
// 2^-20 of it, which is 16 times what the roundings can add up to.
//
// The kernel's sum is over bytes c_j + 128, so it is D + K with K = 128 sum_j u_j. As float32 it is off by at most
// 2^-24 * 255 sum_j |u_j|, which the offset of the cut contains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/kernels/codes.h"
#include "server/search/candidate_bound.h"
#include "server/search/metric.h"
#include "server/search/row_codes.h"
#include "server/search/score.h"

namespace embedding {

// One query's codes and bounds. Immutable, so it may be shared between threads.
class CodeBound {
 public:
  // nullopt where no bound holds: as CandidateBound::Of. in_bytes: the query's codes have 8 bits instead of 16, less
  // exact and faster to multiply where HasFastByteDots().
  static std::optional<CodeBound> Of(Metric metric, VectorView query, const RowCodes& codes, bool in_bytes);

  // u: [dim], whichever was asked for; the other is empty.
  const std::vector<int16_t>& words() const { return words_; }
  const std::vector<int8_t>& bytes() const { return bytes_; }

  // Bounds of the closeness (candidate_bound.h) of a row with this sum over its bytes and these facts, none of them
  // NaN.
  CandidateBound::Range RangeOf(int32_t dot, float alpha, float error, float norm) const;

  // A row that does not meet it has a closeness below tau.
  CodeCut CutFor(float tau) const;

  // As TauOfThreshold, for this query.
  float TauOf(float threshold) const { return TauOfThreshold(metric_, threshold_scale_, threshold); }

 private:
  Metric metric_ = Metric::kCosine;
  double threshold_scale_ = 1;  // closeness = scale * s for dot and cosine: 2^t; F
  std::vector<int16_t> words_;
  std::vector<int8_t> bytes_;
  double length_ = 0;         // F
  double scale_ = 0;          // b, exact in float32
  double bias_ = 0;           // K
  double query_error_ = 0;    // |e| C
  double dot_rounding_ = 0;   // 255 b sum_j |u_j|
  double coded_length_ = 0;   // |Q|
  double mean_ = 0;           // 2^t q.mean
  double mean_rounding_ = 0;  // 2^-30 F |mean|
  double mean_reach_ = 0;     // F |mean|
  double norm_margin_ = 0;    // of the canonical score and the stored norm, for each unit of n
};

}  // namespace embedding
