// Seeded vectors of many kinds, among them those that are hard for a pass in float32.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "server/search/score.h"

namespace embedding::testing {

enum class VectorKind {
  kGaussian,
  kFewDistinct,    // rows repeat: ties
  kAllEqual,       // every row the same
  kSmallIntegers,  // scores tie often
  kNearTies,       // one row, each time moved by a few units in the last place
  kMixedNorms,     // lengths from 1e-30 to 1e30
  kHuge,           // 1e30
  kDenormal,       // 1e-40
  kManyZeroRows,
  kClusters,       // five centres, rows a hundredth of their length away from one
  kUnevenColumns,  // a common mean, and columns of lengths from 1/32 to 1
  kCount,
};

// [num_rows, dim] values that float32 holds exactly.
inline std::vector<float> RandomRows(VectorKind kind, int64_t num_rows, int64_t dim, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  const auto uniform = [&random](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<float> rows;
  std::vector<float> base(static_cast<size_t>(dim));
  for (float& x : base) x = normal(random);
  std::vector<std::vector<float>> distinct(5, base);
  for (auto& row : distinct) {
    for (float& x : row) x = normal(random);
  }
  for (int64_t i = 0; i < num_rows; ++i) {
    const float scale = kind == VectorKind::kHuge         ? 1e30f
                        : kind == VectorKind::kDenormal   ? 1e-40f
                        : kind == VectorKind::kMixedNorms ? std::pow(10.0f, static_cast<float>(uniform(61)) - 30.0f)
                                                          : 1.0f;
    const bool is_zero = kind == VectorKind::kManyZeroRows && uniform(2) == 0;
    const auto& repeated = distinct[static_cast<size_t>(uniform(5))];
    for (int64_t j = 0; j < dim; ++j) {
      float x = 0;
      if (kind == VectorKind::kFewDistinct) {
        x = repeated[static_cast<size_t>(j)];
      } else if (kind == VectorKind::kAllEqual) {
        x = base[static_cast<size_t>(j)];
      } else if (kind == VectorKind::kSmallIntegers) {
        x = static_cast<float>(uniform(5) - 2);
      } else if (kind == VectorKind::kClusters) {
        x = repeated[static_cast<size_t>(j)] + normal(random) * 0.01f;
      } else if (kind == VectorKind::kUnevenColumns) {
        x = (normal(random) + base[static_cast<size_t>(j)] * 2) * std::ldexp(1.0f, -static_cast<int>(j % 6));
      } else if (kind == VectorKind::kNearTies) {
        x = base[static_cast<size_t>(j)] * (1 + static_cast<float>(uniform(5) - 2) * 0x1p-23f);
      } else if (!is_zero) {
        x = normal(random) * scale;
      }
      rows.push_back(x);
    }
  }
  return rows;
}

}  // namespace embedding::testing
