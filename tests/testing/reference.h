// The double-precision reference: plain loops that follow the definition of a score, sharing nothing with the kernels.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "server/search/neighbour.h"
#include "server/search/score.h"

namespace embedding::testing {

// The value of 16 bits in a format with so many mantissa bits, by the formula of IEEE 754: (-1)^s * 2^(e - bias) * 1.m.
inline double ReferenceFrom16(uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// The value of a code of E4M3 or E5M2 by the formula of the OCP's specification, section 5.3.
inline double ReferenceFromByte(uint8_t bits, int mantissa_bits) {
  const int exponent_bits = 7 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits >> 7) != 0 ? -1.0 : 1.0;
  if (mantissa_bits == 3 && (bits & 0x7f) == 0x7f) return NAN;
  if (mantissa_bits == 2 && exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

inline double ReferenceElement(ElementType type, const void* data, int64_t j) {
  const char* at = static_cast<const char*>(data) + static_cast<size_t>(j) * ElementSize(type);
  switch (type) {
    case ElementType::kF32: {
      float value;
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    case ElementType::kF64: {
      double value;
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    case ElementType::kI8:
      return static_cast<int8_t>(*at);
    case ElementType::kU8:
      return static_cast<uint8_t>(*at);
    case ElementType::kF8E4M3:
      return ReferenceFromByte(static_cast<uint8_t>(*at), 3);
    case ElementType::kF8E5M2:
      return ReferenceFromByte(static_cast<uint8_t>(*at), 2);
    default:
      break;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return ReferenceFrom16(bits, type == ElementType::kF16 ? 10 : 7);
}

// Any code of an 8-bit type that is a finite value.
template <typename Random>
uint8_t RandomByte(ElementType type, Random& random) {
  for (;;) {
    const auto byte = static_cast<uint8_t>(random());
    if (std::isfinite(ReferenceElement(type, &byte, 0))) return byte;
  }
}

// The finite values of an 8-bit type with their codes, ascending; of equal ones (+0 and -0) the first code.
inline std::vector<std::pair<double, uint8_t>> SortedCodes(ElementType type) {
  std::vector<std::pair<double, uint8_t>> codes;
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const double value = ReferenceElement(type, &byte, 0);
    if (std::isfinite(value) && !(value == 0 && std::signbit(value))) codes.emplace_back(value, byte);
  }
  std::sort(codes.begin(), codes.end());
  return codes;
}

// The code of an 8-bit type nearest to x; what is out of range becomes the largest finite value, NaN a zero where the
// type has none.
inline uint8_t NearestByte(ElementType type, float x) {
  const bool is_integer = type == ElementType::kI8 || type == ElementType::kU8;
  if (std::isnan(x)) return is_integer ? 0 : 0x7f;
  static const std::vector<std::pair<double, uint8_t>> kSorted[] = {
      SortedCodes(ElementType::kI8), SortedCodes(ElementType::kU8), SortedCodes(ElementType::kF8E4M3),
      SortedCodes(ElementType::kF8E5M2)};
  const auto& codes = kSorted[static_cast<int>(type) - static_cast<int>(ElementType::kI8)];
  const auto above = std::lower_bound(codes.begin(), codes.end(), std::pair(double{x}, uint8_t{0}));
  if (above == codes.end()) return codes.back().second;
  if (above == codes.begin()) return codes.front().second;
  const auto below = std::prev(above);
  return x - below->first < above->first - x ? below->second : above->second;
}

inline std::vector<double> ReferenceElements(VectorView view, int64_t dim) {
  std::vector<double> elements;
  for (int64_t j = 0; j < dim; ++j) elements.push_back(ReferenceElement(view.type, view.data, j));
  return elements;
}

// Sum over j of term(j): element j in partial sum j mod 8, then the tree.
template <typename Term>
double ReferenceSum(int64_t dim, const Term& term) {
  double s[8] = {};
  for (int64_t j = 0; j < dim; ++j) s[j % 8] += term(j);
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

inline float ReferenceRound(double score) {
  if (score > FLT_MAX) return FLT_MAX;
  if (score < -FLT_MAX) return -FLT_MAX;
  return static_cast<float>(score);
}

inline float ReferenceScore(Metric metric, const double* a, const double* b, int64_t dim) {
  if (metric == Metric::kEuclidean) {
    const double sum = ReferenceSum(dim, [&](int64_t j) {
      const double difference = a[j] - b[j];
      const double square = difference * difference;
      return square;
    });
    return ReferenceRound(std::sqrt(sum));
  }
  const auto dot = [dim](const double* x, const double* y) {
    return ReferenceSum(dim, [&](int64_t j) {
      const double product = x[j] * y[j];
      return product;
    });
  };
  const double ab = dot(a, b);
  if (metric == Metric::kDot) return ReferenceRound(ab);
  const double aa = dot(a, a);
  const double bb = dot(b, b);
  if (aa == 0 || bb == 0) return 0;
  const double cosine = ab / (std::sqrt(aa) * std::sqrt(bb));
  return ReferenceRound(cosine > 1 ? 1 : cosine < -1 ? -1 : cosine);
}

inline float ReferenceScore(Metric metric, VectorView a, VectorView b, int64_t dim) {
  return ReferenceScore(metric, ReferenceElements(a, dim).data(), ReferenceElements(b, dim).data(), dim);
}

// The k closest of those rows of [num_rows, dim] that may be found, closest first, ties by lower id, without rows that
// hold NaN or infinity and without those whose score lies beyond the threshold.
inline std::vector<Neighbour> ReferenceNeighbours(Metric metric, const std::vector<double>& rows, int64_t dim,
                                                  VectorView query, int64_t k,
                                                  const std::function<bool(int64_t)>& may_find,
                                                  std::optional<float> threshold = std::nullopt) {
  const std::vector<double> q = ReferenceElements(query, dim);
  const int64_t num_rows = static_cast<int64_t>(rows.size()) / dim;
  std::vector<Neighbour> all;
  for (int64_t id = 0; id < num_rows; ++id) {
    const double* row = rows.data() + id * dim;
    if (!may_find(id) || !std::all_of(row, row + dim, [](double x) { return std::isfinite(x); })) continue;
    const float score = ReferenceScore(metric, q.data(), row, dim);
    if (threshold && (metric == Metric::kEuclidean ? score > *threshold : score < *threshold)) continue;
    all.push_back({id, score});
  }
  std::sort(all.begin(), all.end(), [metric](const Neighbour& a, const Neighbour& b) {
    if (a.score != b.score) return metric == Metric::kEuclidean ? a.score < b.score : a.score > b.score;
    return a.id < b.id;
  });
  if (static_cast<int64_t>(all.size()) > k) all.resize(static_cast<size_t>(k));
  return all;
}

}  // namespace embedding::testing
