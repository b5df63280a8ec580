// The full scan of a table by the definition of a score (reference.h), fast enough for many queries: plain loops in
// double, which share nothing with the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "server/search/neighbour.h"
#include "tests/testing/reference.h"

namespace embedding::testing {

// Immutable, so it may be shared between threads.
class ReferenceScan {
 public:
  // rows: [num_rows, dim], the values of any stored type but F64, which float32 holds exactly.
  ReferenceScan(std::vector<float> rows, int64_t dim)
      : rows_(std::move(rows)), dim_(dim), num_rows_(static_cast<int64_t>(rows_.size()) / dim) {
    squares_.reserve(static_cast<size_t>(num_rows_));
    for (int64_t id = 0; id < num_rows_; ++id) {
      const std::vector<double> wide = Row(id);
      const bool is_finite = std::all_of(wide.begin(), wide.end(), [](double x) { return std::isfinite(x); });
      squares_.push_back(is_finite ? Dot(wide.data(), id) : std::numeric_limits<double>::quiet_NaN());
    }
  }

  int64_t num_rows() const { return num_rows_; }
  int64_t dim() const { return dim_; }
  bool IsFinite(int64_t id) const { return !std::isnan(squares_[static_cast<size_t>(id)]); }
  std::vector<double> Row(int64_t id) const {
    return {rows_.begin() + static_cast<ptrdiff_t>(id * dim_), rows_.begin() + static_cast<ptrdiff_t>((id + 1) * dim_)};
  }

  // [num_rows]; NaN for rows that are not finite. query: [dim], finite.
  std::vector<float> Scores(Metric metric, const std::vector<double>& query) const {
    const double aa = ReferenceSum(dim_, [&](int64_t j) {
      const double square = query[static_cast<size_t>(j)] * query[static_cast<size_t>(j)];
      return square;
    });
    std::vector<float> scores;
    scores.reserve(static_cast<size_t>(num_rows_));
    for (int64_t id = 0; id < num_rows_; ++id) {
      if (!IsFinite(id)) {
        scores.push_back(std::numeric_limits<float>::quiet_NaN());
        continue;
      }
      scores.push_back(Score(metric, query.data(), aa, id));
    }
    return scores;
  }

  // As ReferenceNeighbours, from Scores.
  std::vector<Neighbour> Closest(Metric metric, const std::vector<float>& scores, int64_t k,
                                 const std::function<bool(int64_t)>& may_find, std::optional<float> threshold) const {
    const bool lower_is_closer = metric == Metric::kEuclidean;
    std::vector<Neighbour> all;
    for (int64_t id = 0; id < num_rows_; ++id) {
      const float score = scores[static_cast<size_t>(id)];
      if (std::isnan(score) || !may_find(id)) continue;
      if (threshold && (lower_is_closer ? score > *threshold : score < *threshold)) continue;
      all.push_back({id, score});
    }
    const auto closer = [lower_is_closer](const Neighbour& a, const Neighbour& b) {
      if (a.score != b.score) return lower_is_closer ? a.score < b.score : a.score > b.score;
      return a.id < b.id;
    };
    const auto found = static_cast<ptrdiff_t>(std::min<int64_t>(k, static_cast<int64_t>(all.size())));
    std::partial_sort(all.begin(), all.begin() + found, all.end(), closer);
    all.resize(static_cast<size_t>(found));
    return all;
  }

 private:
  // Eight partial sums side by side are the definition's, and what a compiler makes vectors of.
  template <typename Term>
  double Sum(const double* query, int64_t id, const Term& term) const {
    const float* row = rows_.data() + id * dim_;
    double s[8] = {};
    int64_t j = 0;
    for (; j + 8 <= dim_; j += 8) {
      for (int64_t lane = 0; lane < 8; ++lane) s[lane] += term(query[j + lane], double{row[j + lane]});
    }
    for (int64_t lane = 0; j < dim_; ++j, ++lane) s[lane] += term(query[j], double{row[j]});
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }

  double Dot(const double* query, int64_t id) const {
    return Sum(query, id, [](double a, double b) { return a * b; });
  }

  float Score(Metric metric, const double* query, double aa, int64_t id) const {
    if (metric == Metric::kEuclidean) {
      return ReferenceRound(std::sqrt(Sum(query, id, [](double a, double b) { return (a - b) * (a - b); })));
    }
    const double ab = Dot(query, id);
    if (metric == Metric::kDot) return ReferenceRound(ab);
    const double bb = squares_[static_cast<size_t>(id)];
    if (aa == 0 || bb == 0) return 0;
    return ReferenceRound(std::clamp(ab / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0));
  }

  const std::vector<float> rows_;
  const int64_t dim_;
  const int64_t num_rows_;
  std::vector<double> squares_;  // [num_rows]; NaN: not finite
};

}  // namespace embedding::testing
