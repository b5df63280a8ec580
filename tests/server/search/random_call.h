// Random searches of a table: vectors of many kinds, filters, exclusions, thresholds, any k.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/search/neighbour_index.h"
#include "server/search/score.h"
#include "server/table/embedding_table.h"
#include "tests/testing/random_vectors.h"
#include "tests/testing/reference_scan.h"

namespace embedding::testing {

// In [0, n).
inline int64_t Pick(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

// A filter of any kind, with its own plain answer to what it lets through.
class RandomFilter {
 public:
  RandomFilter(int64_t num_rows, std::mt19937_64& random)
      : num_rows_(num_rows), lets_through_(static_cast<size_t>(num_rows)) {
    if (Pick(random, 2) != 0) {
      const int64_t sizes[] = {0, 1, 5, num_rows / 20, num_rows / 4, 2 * num_rows, 20000};
      if (Pick(random, 2) == 0) allow_ = Ids(sizes[Pick(random, 7)], random);
      if (Pick(random, 2) == 0) deny_ = Ids(sizes[Pick(random, 7)], random);
      if (Pick(random, 2) == 0) first_row_ = Pick(random, num_rows + 3);
      if (Pick(random, 2) == 0) end_row_ = first_row_ + Pick(random, num_rows + 3);
    }
    std::vector<bool> allowed(static_cast<size_t>(num_rows), !allow_.has_value());
    const auto set = [&](const std::vector<int64_t>& ids, bool value) {
      for (const int64_t id : ids) {
        if (id < num_rows) allowed[static_cast<size_t>(id)] = value;
      }
    };
    if (allow_) set(*allow_, true);
    set(deny_, false);
    for (int64_t id = 0; id < num_rows; ++id) {
      lets_through_[static_cast<size_t>(id)] =
          allowed[static_cast<size_t>(id)] && id >= first_row_ && id < end_row_.value_or(num_rows);
    }
  }

  // Borrows from this object.
  RowFilter filter() const {
    RowFilter filter;
    if (allow_) filter.allow = *allow_;
    filter.deny = deny_;
    filter.first_row = first_row_;
    filter.end_row = end_row_;
    return filter;
  }

  bool LetsThrough(int64_t id) const { return lets_through_[static_cast<size_t>(id)]; }

  std::string Text() const {
    return (allow_ ? "allow " + std::to_string(allow_->size()) : std::string("all")) + " deny " +
           std::to_string(deny_.size()) + " rows " + std::to_string(first_row_) + ".." +
           std::to_string(end_row_.value_or(-1));
  }

 private:
  // Some lie beyond the table; any may come twice.
  std::vector<int64_t> Ids(int64_t most, std::mt19937_64& random) const {
    std::vector<int64_t> values(static_cast<size_t>(Pick(random, most + 1)));
    for (int64_t& id : values) id = Pick(random, num_rows_ + 1 + num_rows_ / 8);
    return values;
  }

  const int64_t num_rows_;
  std::optional<std::vector<int64_t>> allow_;
  std::vector<int64_t> deny_;
  int64_t first_row_ = 0;
  std::optional<int64_t> end_row_;
  std::vector<bool> lets_through_;
};

// One search, which borrows its vectors from this object and from the table.
class RandomCall {
 public:
  // scan: of the table.
  RandomCall(const EmbeddingTable& table, const ReferenceScan& scan, int64_t num_queries, std::mt19937_64& random)
      : filter_(scan.num_rows(), random) {
    const int64_t num_rows = scan.num_rows();
    const Metric metrics[] = {Metric::kCosine, Metric::kDot, Metric::kEuclidean};
    query_.metric = metrics[Pick(random, 3)];
    const int64_t ks[] = {1, 2, 10, 1 + num_rows / 10, num_rows + Pick(random, 6)};
    query_.k = Pick(random, 2) == 0 ? 1 + Pick(random, 100) : ks[Pick(random, 5)];
    query_.filter = filter_.filter();
    vectors_.reserve(static_cast<size_t>(num_queries));
    for (int64_t i = 0; i < num_queries; ++i) AddVector(table, scan, random);
    if (Pick(random, 3) == 0) {
      // The score of some row itself, the next one beyond it, or one that nothing or everything reaches.
      const std::vector<float> scores = scan.Scores(query_.metric, vectors_.front());
      float score = scores[static_cast<size_t>(Pick(random, num_rows))];
      if (std::isnan(score)) score = 0;
      const float limit = std::numeric_limits<float>::max();
      const float thresholds[] = {score,  score, std::nextafter(score, limit), std::nextafter(score, -limit), 0,
                                  -limit, limit};
      query_.threshold = thresholds[Pick(random, 7)];
    }
  }

  RandomCall(const RandomCall&) = delete;
  RandomCall& operator=(const RandomCall&) = delete;

  const NeighbourQuery& query() const { return query_; }
  // Query i's elements: [dim].
  const std::vector<double>& vector(size_t i) const { return vectors_[i]; }

  bool MayFind(size_t i, int64_t id) const {
    const std::vector<int64_t>& excluded = query_.excluded_rows[i];
    return filter_.LetsThrough(id) && std::find(excluded.begin(), excluded.end(), id) == excluded.end();
  }

  std::string Text() const {
    return "metric " + std::to_string(static_cast<int>(query_.metric)) + " k " + std::to_string(query_.k) +
           " queries " + std::to_string(query_.queries.size()) + " filter " + filter_.Text() + " threshold " +
           (query_.threshold ? std::to_string(*query_.threshold) : "none");
  }

 private:
  void AddVector(const EmbeddingTable& table, const ReferenceScan& scan, std::mt19937_64& random) {
    const int64_t dim = scan.dim();
    int64_t row = Pick(random, scan.num_rows());
    while (!scan.IsFinite(row) && row > 0) --row;
    if (scan.IsFinite(row) && Pick(random, 2) == 0) {
      vectors_.push_back(scan.Row(row));
      query_.queries.push_back({table.row(row), ElementTypeOf(table.dtype())});
      query_.excluded_rows.push_back(Exclusions(row, scan.num_rows(), random));
      return;
    }
    // A raw vector of doubles: another kind, a scaled row moved a little, or zero.
    const auto kind = static_cast<VectorKind>(Pick(random, static_cast<int64_t>(VectorKind::kCount)));
    std::vector<double>& vector = vectors_.emplace_back();
    for (float x : RandomRows(kind, 1, dim, random)) vector.push_back(x);
    const std::vector<double> of_row = scan.Row(row);
    const int64_t way = Pick(random, 4);
    for (int64_t j = 0; j < dim; ++j) {
      double& x = vector[static_cast<size_t>(j)];
      if (way == 0 && scan.IsFinite(row)) x = of_row[static_cast<size_t>(j)] * 1.0000001 + 1e-9 * x;
      if (way == 1) x *= 1.0 / 3;
      if (way == 2 && Pick(random, 20) == 0) x = 0;
      if (!(std::abs(x) <= std::numeric_limits<float>::max())) x = 1;
    }
    if (Pick(random, 20) == 0) std::fill(vector.begin(), vector.end(), 0.0);
    query_.queries.push_back({vector.data(), ElementType::kF64});
    query_.excluded_rows.push_back(Exclusions(row, scan.num_rows(), random));
  }

  // None, the row that the query is made from, or several, some of them twice.
  static std::vector<int64_t> Exclusions(int64_t row, int64_t num_rows, std::mt19937_64& random) {
    std::vector<int64_t> excluded;
    const int64_t way = Pick(random, 4);
    if (way >= 2) excluded.push_back(row);
    for (int64_t i = 0; way == 3 && i < 5; ++i) {
      excluded.insert(excluded.end(), static_cast<size_t>(1 + Pick(random, 2)), Pick(random, num_rows));
    }
    return excluded;
  }

  const RandomFilter filter_;
  NeighbourQuery query_;
  std::vector<std::vector<double>> vectors_;
};

}  // namespace embedding::testing
