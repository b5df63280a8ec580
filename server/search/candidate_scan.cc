#include "server/search/candidate_scan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace embedding {
namespace {

// A block of rows is read from memory once and scored against all queries while it is in the second-level cache; its
// work bounds the time between two polls of the stop predicate to some 100 microseconds.
constexpr int64_t kBlockBytes = int64_t{1} << 18;
constexpr int64_t kBlockWork = int64_t{1} << 21;
constexpr int64_t kMaxBlockRows = 4096;
// Of a lane's first block, rows whose cheap bounds give a first tau, or 2k if that is more: without it every row of the
// block would be selected, and judged and kept for nothing.
constexpr int64_t kFirstRows = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t BlockRows(const CandidatePass& pass, int64_t dim, size_t num_queries) {
  const int64_t by_bytes = kBlockBytes / static_cast<int64_t>(pass.row_bytes());
  const int64_t by_work = kBlockWork * pass.speed() / (dim * static_cast<int64_t>(num_queries));
  const int64_t rows = std::clamp<int64_t>(std::min(by_bytes, by_work), 4, kMaxBlockRows);
  // Whole vectors of rows to select from, or whole tiles: the kernels take up to 16 and 4 at a time.
  return rows - rows % (rows < 16 ? 4 : 16);
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

CandidateScan::CandidateScan(std::unique_ptr<const CandidatePass> pass, int64_t dim, int64_t begin, int64_t end,
                             std::vector<RowsWanted> wanted, int num_lanes, StopPredicate stop)
    : pass_(std::move(pass)),
      wanted_(std::move(wanted)),
      stop_(std::move(stop)),
      blocks_(begin, end, BlockRows(*pass_, dim, wanted_.size())),
      reservoirs_(static_cast<size_t>(num_lanes)),
      tau_(wanted_.size()),
      gave_up_(wanted_.size()) {
  for (size_t q = 0; q < wanted_.size(); ++q) tau_[q].store(wanted_[q].tau, std::memory_order_relaxed);
  for (std::vector<CandidateReservoir>& of_lane : reservoirs_) {
    of_lane.reserve(wanted_.size());
    for (const RowsWanted& query : wanted_) {
      of_lane.emplace_back(static_cast<size_t>(query.k), SurvivorLimit(query.eligible->count(), query.k, num_lanes));
    }
  }
}

void CandidateScan::RunLane(int lane) {
  const size_t num_queries = wanted_.size();
  std::vector<CandidateReservoir>& reservoirs = reservoirs_[static_cast<size_t>(lane)];
  const auto block_rows = static_cast<size_t>(blocks_.block_size());
  const std::unique_ptr<CandidatePass::Lane> work = pass_->StartLane(block_rows);
  std::vector<uint32_t> selected(block_rows);

  int64_t begin;
  int64_t end;
  while (!stop_() && queries_given_up_.load(std::memory_order_relaxed) < num_queries && blocks_.Take(&begin, &end)) {
    work->Score(begin, end);
    for (size_t q = 0; q < num_queries; ++q) {
      const RowsWanted& wanted = wanted_[q];
      if (end <= wanted.eligible->begin() || wanted.eligible->end() <= begin) continue;
      CandidateReservoir& reservoir = reservoirs[q];
      if (gave_up_[q].load(std::memory_order_relaxed) || wanted.stop->stopped()) continue;
      const float known = tau_[q].load(std::memory_order_relaxed);
      reservoir.RaiseTau(known);
      if (reservoir.tau() == -kInfinity) reservoir.RaiseTau(FirstTau(q, *work, begin, end));
      const float tau = reservoir.tau();
      const size_t n = work->Select(q, tau, selected.data());
      for (size_t i = 0; i < n; ++i) {
        const uint32_t row = selected[i];
        const int64_t id = begin + row;
        if (!MayFind(q, id)) continue;
        const CandidateBound::Range range = work->RangeOf(q, row, i);
        if (!reservoir.Add({range.lower, range.upper, static_cast<int32_t>(id)})) {
          if (!gave_up_[q].exchange(true, std::memory_order_relaxed)) {
            queries_given_up_.fetch_add(1, std::memory_order_relaxed);
          }
          break;
        }
      }
      if (reservoir.tau() > known) RaiseTo(tau_[q], reservoir.tau());
    }
    blocks_scanned_.fetch_add(1, std::memory_order_relaxed);
    rows_scanned_.fetch_add(end - begin, std::memory_order_relaxed);
  }
}

float CandidateScan::FirstTau(size_t query, const CandidatePass::Lane& lane, int64_t begin, int64_t end) const {
  const int64_t k = wanted_[query].k;
  const int64_t looked_at = std::min(end, begin + std::max(kFirstRows, 2 * k));
  if (looked_at - begin < k) return -kInfinity;
  std::vector<float> lower;
  lower.reserve(static_cast<size_t>(looked_at - begin));
  for (int64_t row = begin; row < looked_at; ++row) {
    if (!MayFind(query, row)) continue;
    const float bound = lane.LowerBoundOf(query, static_cast<uint32_t>(row - begin));
    if (!std::isnan(bound)) lower.push_back(bound);
  }
  if (static_cast<int64_t>(lower.size()) < k) return -kInfinity;
  const auto kth = lower.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(lower.begin(), kth, lower.end(), std::greater<>());
  return *kth;
}

bool CandidateScan::MayFind(size_t query, int64_t row) const {
  const RowsWanted& wanted = wanted_[query];
  // Of a pass that queries share, some blocks lie half outside of a query's range.
  if (row < wanted.eligible->begin() || row >= wanted.eligible->end() || !wanted.eligible->Contains(row)) return false;
  return !std::binary_search(wanted.excluded.begin(), wanted.excluded.end(), row);
}

std::optional<std::vector<int64_t>> CandidateScan::Survivors(size_t query) {
  if (gave_up_[query].load(std::memory_order_relaxed)) return std::nullopt;
  const EligibleRows& eligible = *wanted_[query].eligible;
  CandidateReservoir merged = std::move(reservoirs_[0][query]);
  for (size_t lane = 1; lane < reservoirs_.size(); ++lane) {
    merged.Merge(std::exchange(reservoirs_[lane][query], CandidateReservoir(1, 0)));
  }
  merged.Shrink();
  std::vector<int64_t> ids;
  ids.reserve(merged.candidates().size());
  for (const Candidate& candidate : merged.candidates()) ids.push_back(candidate.id);
  for (const int64_t row : Within(pass_->unjudged(), eligible.begin(), eligible.end())) {
    if (MayFind(query, row)) ids.push_back(row);
  }
  int64_t zero_rows = 0;
  for (const int64_t row : Within(pass_->zero_rows(), eligible.begin(), eligible.end())) {
    if (!MayFind(query, row)) continue;
    ids.push_back(row);
    if (++zero_rows == wanted_[query].k) break;
  }
  return ids;
}

}  // namespace embedding
