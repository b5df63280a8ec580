#include "server/search/candidate_scan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/kernels/candidates.h"

namespace embedding {
namespace {

// A block of rows is read from memory once and scored against all queries while it is in the second-level cache; its
// work bounds the time between two polls of the stop predicate to some 100 microseconds.
constexpr int64_t kBlockBytes = int64_t{1} << 18;
constexpr int64_t kBlockWork = int64_t{1} << 21;
constexpr int64_t kMaxBlockRows = 4096;

int64_t BlockRows(const EmbeddingTable& table, size_t num_queries) {
  const int64_t by_bytes = kBlockBytes / static_cast<int64_t>(table.row_bytes());
  const int64_t by_work = kBlockWork / (table.dim() * static_cast<int64_t>(num_queries));
  // A few rows at least: the kernel takes up to 4 at a time.
  return std::clamp<int64_t>(std::min(by_bytes, by_work), 4, kMaxBlockRows);
}

// Survivors beyond a few percent of the table cost more than the canonical scan that they would save.
size_t SurvivorLimit(int64_t num_rows, int64_t k, int num_lanes) {
  return static_cast<size_t>(4 * k + 1024 + std::min<int64_t>(num_rows / 16, int64_t{1} << 18) / num_lanes);
}

void RaiseTo(std::atomic<float>& shared, float value) {
  float seen = shared.load(std::memory_order_relaxed);
  while (seen < value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

CandidateScan::CandidateScan(const EmbeddingTable& table, const RowNorms& norms, const EligibleRows& eligible,
                             Metric metric, int64_t k, std::vector<Query> queries, int num_lanes, StopPoll& stop)
    : table_(table),
      norms_(norms),
      eligible_(eligible),
      metric_(metric),
      queries_(std::move(queries)),
      stop_(stop),
      blocks_(eligible.begin(), eligible.end(), BlockRows(table, queries_.size())),
      tau_(queries_.size()),
      gave_up_(queries_.size()) {
  for (size_t q = 0; q < queries_.size(); ++q) tau_[q].store(queries_[q].tau, std::memory_order_relaxed);
  query_data_.reserve(queries_.size() * static_cast<size_t>(table.dim()));
  for (const Query& query : queries_) {
    query_data_.insert(query_data_.end(), query.bound.query().begin(), query.bound.query().end());
  }
  const CandidateReservoir empty(static_cast<size_t>(k), SurvivorLimit(eligible.count(), k, num_lanes));
  reservoirs_.assign(static_cast<size_t>(num_lanes), std::vector<CandidateReservoir>(queries_.size(), empty));
}

void CandidateScan::RunLane(int lane) {
  const size_t num_queries = queries_.size();
  const auto dim = static_cast<size_t>(table_.dim());
  std::vector<CandidateReservoir>& reservoirs = reservoirs_[static_cast<size_t>(lane)];
  const auto block_rows = static_cast<size_t>(blocks_.block_size());
  std::vector<float> closeness(num_queries * block_rows);
  std::vector<uint32_t> selected(block_rows);
  std::vector<CandidateBound::Cut> cuts(num_queries);
  std::vector<float> cut_tau(num_queries, std::numeric_limits<float>::quiet_NaN());
  const QueryBlock queries{query_data_.data(), dim, num_queries};

  int64_t begin;
  int64_t end;
  while (!stop_.ShouldStop() && queries_given_up_.load(std::memory_order_relaxed) < num_queries &&
         blocks_.Take(&begin, &end)) {
    const auto count = static_cast<size_t>(end - begin);
    const RowBlock rows{ElementTypeOf(table_.dtype()), table_.row(begin), count, dim};
    if (metric_ == Metric::kEuclidean) {
      NegativeSquaredL2ManyToMany(queries, rows, closeness.data());
    } else {
      DotManyToMany(queries, rows, closeness.data());
    }
    const float* norms = norms_.norms.data() + begin;
    for (size_t q = 0; q < num_queries; ++q) {
      CandidateReservoir& reservoir = reservoirs[q];
      if (gave_up_[q].load(std::memory_order_relaxed)) continue;
      reservoir.RaiseTau(tau_[q].load(std::memory_order_relaxed));
      if (cut_tau[q] != reservoir.tau()) {
        cut_tau[q] = reservoir.tau();
        cuts[q] = queries_[q].bound.CutFor(cut_tau[q]);
      }
      const float* values = closeness.data() + q * count;
      const size_t n = SelectAtLeast(values, norms, count, cuts[q].a, cuts[q].b, selected.data());
      for (size_t i = 0; i < n; ++i) {
        const uint32_t row = selected[i];
        const int64_t id = begin + row;
        if (!MayFind(q, id)) continue;
        const CandidateBound::Range range = queries_[q].bound.RangeOf(values[row], norms[row]);
        if (!reservoir.Add({range.lower, range.upper, static_cast<int32_t>(id)})) {
          if (!gave_up_[q].exchange(true, std::memory_order_relaxed)) {
            queries_given_up_.fetch_add(1, std::memory_order_relaxed);
          }
          break;
        }
      }
      if (reservoir.tau() > cut_tau[q]) RaiseTo(tau_[q], reservoir.tau());
    }
    blocks_scanned_.fetch_add(1, std::memory_order_relaxed);
    rows_scanned_.fetch_add(static_cast<int64_t>(count * num_queries), std::memory_order_relaxed);
  }
}

bool CandidateScan::MayFind(size_t query, int64_t row) const {
  const std::span<const int64_t> excluded = queries_[query].excluded;
  return eligible_.Contains(row) && !std::binary_search(excluded.begin(), excluded.end(), row);
}

std::optional<std::vector<int64_t>> CandidateScan::Survivors(size_t query) {
  if (gave_up_[query].load(std::memory_order_relaxed)) return std::nullopt;
  CandidateReservoir merged = std::move(reservoirs_[0][query]);
  for (size_t lane = 1; lane < reservoirs_.size(); ++lane) {
    merged.Merge(std::exchange(reservoirs_[lane][query], CandidateReservoir(1, 0)));
  }
  merged.Shrink();
  std::vector<int64_t> ids;
  ids.reserve(merged.candidates().size() + norms_.unjudged.size());
  for (const Candidate& candidate : merged.candidates()) ids.push_back(candidate.id);
  for (const int64_t row : UnjudgedWithin(norms_, eligible_.begin(), eligible_.end())) {
    if (MayFind(query, row)) ids.push_back(row);
  }
  return ids;
}

}  // namespace embedding
