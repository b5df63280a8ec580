#include "server/search/candidate_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/kernels/canonical.h"
#include "server/search/row_norms.h"

namespace embedding {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float RoundDown(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest > value ? std::nextafterf(nearest, -kInfinity) : nearest;
}

float RoundUp(double value) { return -RoundDown(-value); }

// Higham's gamma_n for float32.
double Gamma(double n) { return n * 0x1p-24 / (1 - n * 0x1p-24); }

}  // namespace

std::optional<CandidateBound> CandidateBound::Of(Metric metric, VectorView query, int64_t dim) {
  if (dim > int64_t{1} << 20) return std::nullopt;
  const auto size = static_cast<size_t>(dim);
  const auto d = static_cast<double>(dim);
  std::vector<double> exact(size);
  WidenToF64(query.type, query.data, size, exact.data());
  double squares = 0;
  const void* row = exact.data();
  CanonicalSquaredNorms(ElementType::kF64, &row, 1, size, &squares);
  const double length = std::sqrt(squares);
  const bool is_euclidean = metric == Metric::kEuclidean;
  // Written so that NaN is refused, too.
  if (!(length <= kMaxNorm) || (!is_euclidean && !(length >= kMinNorm))) return std::nullopt;

  CandidateBound bound;
  bound.metric_ = metric;
  bound.query_.resize(size);
  const int t = is_euclidean ? 0 : -std::ilogb(length);
  const double scale = std::ldexp(1.0, t);
  double error_squares = 0;
  for (size_t j = 0; j < size; ++j) {
    const double scaled = exact[j] * scale;
    bound.query_[j] = static_cast<float>(scaled);
    const double error = scaled - double{bound.query_[j]};
    error_squares += error * error;
  }
  // The factor covers the double arithmetic of e itself.
  bound.e_ = std::sqrt(error_squares) * (1 + 0x1p-30);
  const double scaled_length = length * scale;
  bound.scale_ = metric == Metric::kCosine ? scaled_length : scale;
  bound.margin_ = (1 + 0x1p-20) * (Gamma(d) * (scaled_length + bound.e_) + bound.e_ +
                                   scaled_length * (0x1p-21 + (d + 8) * 0x1p-51) + 0x1p-28);
  bound.g_ = Gamma(d + 2);
  bound.underflow_ = d * 0x1p-149;
  return bound;
}

CandidateBound::Range CandidateBound::RangeOf(float value, float norm) const {
  switch (metric_) {
    case Metric::kCosine: {
      // The margin's slack covers the rounding of this quotient to double.
      const double cosine = double{value} / double{norm};
      return {RoundDown(cosine - margin_), RoundUp(cosine + margin_)};
    }
    case Metric::kDot: {
      const double margin = margin_ * double{norm};
      return {RoundDown(double{value} - margin), RoundUp(double{value} + margin)};
    }
    case Metric::kEuclidean:
      break;
  }
  const double s = -double{value};
  const double farthest = (std::sqrt((s + underflow_) / (1 - g_)) + e_) * (1 + 0x1p-22) + 0x1p-149;
  const double nearest = (std::sqrt(std::max(0.0, s - underflow_) / (1 + g_)) - e_) * (1 - 0x1p-22) - 0x1p-149;
  return {RoundDown(-farthest), RoundUp(-std::max(0.0, nearest))};
}

CandidateBound::Cut CandidateBound::CutFor(float tau) const {
  if (tau == -kInfinity) return {-kInfinity, 0};
  switch (metric_) {
    case Metric::kCosine: {
      // Needed: fl(b n) <= (tau - m) n. The product's rounding moves it by u |b| n + 2^-150 <= (2^-24 |b| + 2^-90) n.
      const double exact = double{tau} - margin_;
      return {0, RoundDown(exact - 0x1p-22 * std::abs(exact) - 0x1p-50)};
    }
    case Metric::kDot:
      // Needed: fl(a + fl(b n)) <= tau - m n. Both roundings together move a by at most 2^-23 |a| and b n by
      // 2^-22 |b| n + 2^-150, and 2^-150 <= 2^-90 n is contained in the enlarged m (m >= 2^-28).
      return {RoundDown(double{tau} - 0x1p-22 * std::abs(double{tau}) - 0x1p-140), RoundDown(-margin_ * (1 + 0x1p-19))};
    case Metric::kEuclidean:
      break;
  }
  // The largest S whose nearest possible distance (RangeOf) is not above -tau. b = 0 leaves a NaN norm a NaN.
  const double reach = (std::max(0.0, -double{tau}) + 0x1p-149) / (1 - 0x1p-22) + e_;
  const double largest = (reach * reach * (1 + g_) + underflow_) * (1 + 0x1p-40);
  return {-RoundUp(largest), 0};
}

float TauOfThreshold(Metric metric, double scale, float threshold) {
  const double exact = metric == Metric::kEuclidean ? -double{threshold} : scale * double{threshold};
  // F is known within (d + 8) 2^-52 of itself; 2^t is exact.
  const double tau = exact - 0x1p-30 * std::abs(exact);
  if (tau < -double{std::numeric_limits<float>::max()}) return -kInfinity;
  return RoundDown(std::min(tau, double{std::numeric_limits<float>::max()}));
}

}  // namespace embedding
