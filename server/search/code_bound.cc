#include "server/search/code_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/kernels/canonical.h"
#include "server/search/row_norms.h"

namespace embedding {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kMaxDim = int64_t{1} << 20;
// The kernel's sums stay below 2^31 while 255 times the sum of |u_j| does.
constexpr double kMaxDot = 2147483647.0;

float RoundDown(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest > value ? std::nextafterf(nearest, -kInfinity) : nearest;
}

float RoundUp(double value) { return -RoundDown(-value); }

}  // namespace

std::optional<CodeBound> CodeBound::Of(Metric metric, VectorView query, const RowCodes& codes, bool in_bytes) {
  const size_t size = codes.mean.size();
  const auto d = static_cast<double>(size);
  if (static_cast<int64_t>(size) > kMaxDim) return std::nullopt;
  std::vector<double> exact(size);
  WidenToF64(query.type, query.data, size, exact.data());
  double squares = 0;
  const void* row = exact.data();
  CanonicalSquaredNorms(ElementType::kF64, &row, 1, size, &squares);
  const double length = std::sqrt(squares);
  // Written so that NaN is refused, too. A query without a length has no scale to be coded in.
  if (!(length <= kMaxNorm) || !(length >= kMinNorm)) return std::nullopt;

  CodeBound bound;
  bound.metric_ = metric;
  const double power = metric == Metric::kEuclidean ? 1.0 : std::ldexp(1.0, -std::ilogb(length));
  bound.length_ = length * power;
  bound.threshold_scale_ = metric == Metric::kCosine ? bound.length_ : power;
  double largest = 0;
  double sum = 0;
  double coded_squares = 0;
  for (size_t j = 0; j < size; ++j) {
    const double scaled = exact[j] * power;
    bound.mean_ += scaled * double{codes.mean[j]};
    exact[j] = scaled / double{codes.inverse_scale[j]};
    largest = std::max(largest, std::abs(exact[j]));
    sum += std::abs(exact[j]);
    coded_squares += exact[j] * exact[j];
  }
  const double most = in_bytes ? 127.0 : 32767.0;
  if (in_bytes && 255.0 * 127.0 * d >= kMaxDot) return std::nullopt;
  // Rounding moves each |u_j| by a half at most.
  const float scale = RoundUp(std::max(largest / most, 255.0 * sum / (kMaxDot - 255.0 * (d + 1))));
  if (!(scale >= std::numeric_limits<float>::min())) return std::nullopt;
  bound.scale_ = double{scale};
  double code_sum = 0;
  double code_magnitudes = 0;
  double error_squares = 0;
  if (in_bytes) {
    bound.bytes_.resize(size);
  } else {
    bound.words_.resize(size);
  }
  for (size_t j = 0; j < size; ++j) {
    const double code = std::clamp(std::nearbyint(exact[j] / bound.scale_), -most, most);
    const double error = exact[j] - bound.scale_ * code;
    error_squares += error * error;
    code_sum += code;
    code_magnitudes += std::abs(code);
    if (in_bytes) {
      bound.bytes_[j] = static_cast<int8_t>(code);
    } else {
      bound.words_[j] = static_cast<int16_t>(code);
    }
  }
  bound.bias_ = 128 * code_sum;
  // The factors cover the double arithmetic of the sums themselves.
  bound.query_error_ = std::sqrt(error_squares) * double{codes.largest_code_norm} * (1 + 0x1p-30);
  bound.dot_rounding_ = 255 * bound.scale_ * code_magnitudes;
  bound.coded_length_ = std::sqrt(coded_squares) * (1 + 0x1p-30);
  bound.mean_reach_ = bound.length_ * codes.mean_norm;
  bound.mean_rounding_ = 0x1p-30 * bound.mean_reach_;
  bound.norm_margin_ = bound.length_ * (0x1p-20 + (d + 8) * 0x1p-50) + 0x1p-28;
  return bound;
}

CandidateBound::Range CodeBound::RangeOf(int32_t dot, float alpha, float error, float norm) const {
  const double n = double{norm};
  const double centre = mean_ + double{alpha} * scale_ * (static_cast<double>(dot) - bias_);
  double reach = double{alpha} * query_error_ + coded_length_ * double{error} + mean_rounding_;
  reach += 0x1p-40 * (length_ * n + mean_reach_ + reach);  // the double arithmetic of this function
  switch (metric_) {
    case Metric::kCosine: {
      const double margin = reach / n + norm_margin_;
      return {RoundDown(centre / n - margin), RoundUp(centre / n + margin)};
    }
    case Metric::kDot: {
      const double margin = reach + norm_margin_ * n;
      return {RoundDown(centre - margin), RoundUp(centre + margin)};
    }
    case Metric::kEuclidean:
      break;
  }
  const double squares = length_ * length_ + n * n;
  const double slack = 0x1p-21 * squares;  // the stored norm's relative error, squared, is below 2^-22
  const double farthest = std::sqrt(std::max(0.0, squares - 2 * (centre - reach) + slack));
  const double nearest = std::sqrt(std::max(0.0, squares - 2 * (centre + reach) - slack));
  return {RoundDown(-(farthest * (1 + 0x1p-22) + 0x1p-149)),
          RoundUp(-std::max(0.0, nearest * (1 - 0x1p-22) - 0x1p-149))};
}

CodeCut CodeBound::CutFor(float tau) const {
  CodeCut cut;
  cut.dot_scale = static_cast<float>(scale_);
  cut.dot_offset = RoundUp(-scale_ * bias_ + query_error_ * (1 + 0x1p-18) + dot_rounding_ * 0x1p-21);
  cut.error = RoundUp(coded_length_ * (1 + 0x1p-18));
  if (tau == -kInfinity) {
    cut.least = -kInfinity;
    return cut;
  }
  const double t = double{tau};
  const double mean_slack = 0x1p-19 * (std::abs(mean_) + mean_reach_) + mean_rounding_;
  switch (metric_) {
    case Metric::kCosine:
      cut.least = RoundDown(-mean_ - mean_slack);
      cut.norm = RoundDown(t - norm_margin_ - 0x1p-19 * (std::abs(t) + length_));
      return cut;
    case Metric::kDot:
      cut.least = RoundDown(t - mean_ - mean_slack - 0x1p-19 * std::abs(t));
      cut.norm = RoundDown(-norm_margin_ - 0x1p-19 * length_);
      return cut;
    case Metric::kEuclidean:
      break;
  }
  // Selected: every row whose nearest possible distance (RangeOf) is not above -tau.
  const double reach = (std::max(0.0, -t) + 0x1p-149) / (1 - 0x1p-22);
  const double squares = length_ * length_;
  const double target = (squares - reach * reach) / 2 - mean_;
  cut.least = RoundDown(target - mean_slack - 0x1p-19 * (squares + reach * reach));
  cut.norm = RoundDown(-0x1p-19 * length_);
  cut.squared_norm = RoundDown(0.5 * (1 - 0x1p-18));
  return cut;
}

}  // namespace embedding
