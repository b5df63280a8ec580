#include "client/loadtest/reference.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>

#include "proto/vector_codec.h"

namespace embedding::loadtest {
namespace {

// What one unit of a binary16's fraction is worth, by exponent field; 0 has the exponent of 1, without the leading bit.
std::array<double, 32> FractionUnits() {
  std::array<double, 32> units{};
  for (int exponent = 0; exponent < 32; ++exponent) units[exponent] = std::ldexp(1.0, std::max(exponent, 1) - 25);
  return units;
}

// IEEE 754 binary16 by its definition.
double HalfToDouble(uint16_t bits) {
  static const std::array<double, 32> kUnits = FractionUnits();
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * kUnits[static_cast<size_t>(exponent)] * (exponent == 0 ? fraction : 1024 + fraction);
}

// The OCP's 8-bit floats by their definition. E5M2 is the upper half of a binary16.
double E4M3ToDouble(uint8_t bits) {
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  const int exponent = (bits >> 3) & 0xf;
  const int fraction = bits & 7;
  if (exponent == 0xf && fraction == 7) return NAN;
  return sign * std::ldexp(exponent == 0 ? fraction : 8 + fraction, std::max(exponent, 1) - 10);
}

double FloatBitsToDouble(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Eight partial sums of term(j).
template <typename Term>
double EightSums(int64_t dim, Term term) {
  double s[8] = {};
  for (int64_t j = 0; j < dim; ++j) s[j % 8] += term(j);
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

float RoundedOnce(double score) {
  if (score > FLT_MAX) return FLT_MAX;
  if (score < -FLT_MAX) return -FLT_MAX;
  return static_cast<float>(score);
}

}  // namespace

bool HigherIsCloser(v1::Metric metric) { return metric != v1::METRIC_EUCLIDEAN; }

ReferenceTable::ReferenceTable(const v1::TableInfo& table)
    : num_rows_(table.rows()),
      dim_(table.dim()),
      dtype_(table.dtype()),
      row_bytes_(table.dim() * static_cast<int64_t>(WireDtypeSize(table.dtype()))),
      data_(static_cast<size_t>(num_rows_ * row_bytes_)) {}

bool ReferenceTable::SetRow(int64_t id, const v1::LookupResponse& answer, std::string* error) {
  const v1::Tensor& tensor = answer.embeddings();
  const bool right_shape = tensor.shape_size() == 2 && tensor.shape(0) == 1 && tensor.shape(1) == dim_;
  if (!right_shape || tensor.dtype() != dtype_ || static_cast<int64_t>(tensor.data().size()) != row_bytes_) {
    *error = "Lookup of id " + std::to_string(id) + " did not answer one row of the table's width and dtype";
    return false;
  }
  if (stamp_.fingerprint().empty()) stamp_ = answer.table();
  if (stamp_.version() != answer.table().version() || stamp_.fingerprint() != answer.table().fingerprint()) {
    *error = "the table changed while its rows were fetched: version " + std::to_string(stamp_.version()) + ", then " +
             std::to_string(answer.table().version());
    return false;
  }
  std::memcpy(data_.data() + id * row_bytes_, tensor.data().data(), static_cast<size_t>(row_bytes_));
  return true;
}

double ReferenceTable::Element(const char* row, int64_t column) const {
  const auto byte = static_cast<uint8_t>(row[column]);
  switch (dtype_) {
    case v1::DTYPE_I8:
      return static_cast<int8_t>(byte);
    case v1::DTYPE_U8:
      return byte;
    case v1::DTYPE_F8_E4M3:
      return E4M3ToDouble(byte);
    case v1::DTYPE_F8_E5M2:
      return HalfToDouble(static_cast<uint16_t>(byte << 8));
    default:
      break;
  }
  if (dtype_ == v1::DTYPE_F32) {
    uint32_t bits;
    std::memcpy(&bits, row + column * 4, sizeof(bits));
    return FloatBitsToDouble(bits);
  }
  uint16_t bits;
  std::memcpy(&bits, row + column * 2, sizeof(bits));
  return dtype_ == v1::DTYPE_BF16 ? FloatBitsToDouble(uint32_t{bits} << 16) : HalfToDouble(bits);
}

void ReferenceTable::Widen(int64_t id, std::vector<double>* out) const {
  out->resize(static_cast<size_t>(dim_));
  for (int64_t j = 0; j < dim_; ++j) (*out)[static_cast<size_t>(j)] = Element(row(id), j);
}

float ReferenceTable::ScoreOf(v1::Metric metric, const double* a, const double* b) const {
  if (metric == v1::METRIC_EUCLIDEAN) {
    return RoundedOnce(std::sqrt(EightSums(dim_, [&](int64_t j) { return (a[j] - b[j]) * (a[j] - b[j]); })));
  }
  const double ab = EightSums(dim_, [&](int64_t j) { return a[j] * b[j]; });
  if (metric == v1::METRIC_DOT) return RoundedOnce(ab);
  const double aa = EightSums(dim_, [&](int64_t j) { return a[j] * a[j]; });
  const double bb = EightSums(dim_, [&](int64_t j) { return b[j] * b[j]; });
  if (aa == 0 || bb == 0) return 0;
  return RoundedOnce(std::clamp(ab / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0));
}

float ReferenceTable::Score(v1::Metric metric, int64_t a, int64_t b) const {
  std::vector<double> left, right;
  Widen(a, &left);
  Widen(b, &right);
  return ScoreOf(metric, left.data(), right.data());
}

void ReferenceTable::Neighbours(v1::Metric metric, int64_t query, int64_t k, std::vector<int64_t>* ids,
                                std::vector<float>* scores) const {
  std::vector<double> target, other;
  Widen(query, &target);
  std::vector<float> all(static_cast<size_t>(num_rows_));
  std::vector<int64_t> eligible;
  for (int64_t id = 0; id < num_rows_; ++id) {
    if (id == query) continue;
    Widen(id, &other);
    if (!std::all_of(other.begin(), other.end(), [](double x) { return std::isfinite(x); })) continue;
    all[static_cast<size_t>(id)] = ScoreOf(metric, target.data(), other.data());
    eligible.push_back(id);
  }
  const size_t found = std::min(static_cast<size_t>(k), eligible.size());
  const bool higher = HigherIsCloser(metric);
  const auto closer = [&](int64_t a, int64_t b) {
    const float score_a = all[static_cast<size_t>(a)], score_b = all[static_cast<size_t>(b)];
    if (score_a != score_b) return (score_a > score_b) == higher;
    return a < b;
  };
  std::partial_sort(eligible.begin(), eligible.begin() + static_cast<int64_t>(found), eligible.end(), closer);
  eligible.resize(found);
  scores->clear();
  for (const int64_t id : eligible) scores->push_back(all[static_cast<size_t>(id)]);
  *ids = std::move(eligible);
}

}  // namespace embedding::loadtest
