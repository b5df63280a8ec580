#include "server/search/canonical_scan.h"

#include <algorithm>
#include <utility>

#include "server/kernels/canonical.h"

namespace embedding {
namespace {

constexpr int64_t kMaxBlockRows = 64;
// Bounds the time between two polls of the stop predicate to some 100 microseconds.
constexpr int64_t kBlockWork = int64_t{1} << 19;
// From so many queries on, a block is widened to double once for all of them.
constexpr size_t kWidenFrom = 3;

}  // namespace

CanonicalScan::CanonicalScan(const EmbeddingTable& table, int64_t begin, int64_t end, Metric metric,
                             std::vector<Query> queries, int num_lanes, StopPredicate stop)
    : table_(table),
      metric_(metric),
      queries_(std::move(queries)),
      stop_(std::move(stop)),
      blocks_(
          begin, end,
          std::clamp<int64_t>(kBlockWork / (table.dim() * static_cast<int64_t>(queries_.size())), 4, kMaxBlockRows)),
      best_(static_cast<size_t>(num_lanes)) {
  for (std::vector<TopK>& of_lane : best_) {
    of_lane.reserve(queries_.size());
    for (const Query& query : queries_) of_lane.emplace_back(metric, static_cast<size_t>(query.wanted.k));
  }
}

void CanonicalScan::RunLane(int lane) {
  const auto dim = static_cast<size_t>(table_.dim());
  const ElementType stored = ElementTypeOf(table_.dtype());
  const bool widen = queries_.size() >= kWidenFrom;
  std::vector<double> widened(widen ? dim * static_cast<size_t>(blocks_.block_size()) : 0);
  const void* rows[kMaxBlockRows];
  double squared_norms[kMaxBlockRows];
  float scores[kMaxBlockRows];

  int64_t begin;
  int64_t end;
  while (!stop_() && blocks_.Take(&begin, &end)) {
    const auto count = static_cast<size_t>(end - begin);
    for (size_t i = 0; i < count; ++i) {
      const void* row = table_.row(begin + static_cast<int64_t>(i));
      if (widen) {
        WidenToF64(stored, row, dim, widened.data() + i * dim);
        row = widened.data() + i * dim;
      }
      rows[i] = row;
    }
    const ElementType type = widen ? ElementType::kF64 : stored;
    if (metric_ == Metric::kCosine) CanonicalSquaredNorms(type, rows, count, dim, squared_norms);
    for (size_t q = 0; q < queries_.size(); ++q) {
      if (queries_[q].wanted.stop->stopped()) continue;
      queries_[q].query->Score(type, rows, count, squared_norms, scores);
      TopK& best = best_[static_cast<size_t>(lane)][q];
      for (size_t i = 0; i < count; ++i) {
        const Neighbour entry{begin + static_cast<int64_t>(i), scores[i]};
        if (best.MayKeep(entry) && MayFind(queries_[q], entry)) best.Add(entry);
      }
    }
    blocks_scanned_.fetch_add(1, std::memory_order_relaxed);
    rows_scored_.fetch_add(static_cast<int64_t>(count), std::memory_order_relaxed);
  }
}

bool CanonicalScan::MayFind(const Query& query, const Neighbour& entry) const {
  const EligibleRows& eligible = *query.wanted.eligible;
  const std::span<const int64_t> excluded = query.wanted.excluded;
  return entry.id >= eligible.begin() && entry.id < eligible.end() && eligible.Contains(entry.id) &&
         (!query.threshold.has_value() || Reaches(metric_, entry.score, *query.threshold)) &&
         !std::binary_search(excluded.begin(), excluded.end(), entry.id) && table_.IsFinite(entry.id);
}

std::vector<Neighbour> CanonicalScan::Take(size_t query) {
  TopK& best = best_[0][query];
  for (size_t lane = 1; lane < best_.size(); ++lane) best.Merge(std::move(best_[lane][query]));
  return best.TakeSorted();
}

}  // namespace embedding
