#include "server/search/hnsw_search.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "server/search/top_k.h"

namespace embedding {
namespace {

// Walks of one thread that take turns, each waiting for memory while the others work.
constexpr size_t kWalksInTurns = 2;

}  // namespace

std::unique_ptr<HnswWalk> WalkStore::Take() {
  {
    MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<HnswWalk> walk = std::move(idle_.back());
      idle_.pop_back();
      return walk;
    }
  }
  return std::make_unique<HnswWalk>(rows_, graph_);
}

void WalkStore::Return(std::unique_ptr<HnswWalk> walk) {
  MutexLock lock(&mutex_);
  idle_.push_back(std::move(walk));
}

void HnswSearch::Start(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                       std::function<void(NeighbourResult)> done) {
  auto search = std::make_shared<HnswSearch>(rows, std::move(query), pool, std::move(stop), std::move(done));
  pool.Submit(
      1, [](int) {}, [search] { search->Begin(); });
}

HnswSearch::HnswSearch(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                       std::function<void(NeighbourResult)> done)
    : rows_(rows), query_(std::move(query)), pool_(pool), stop_(std::move(stop)), done_(std::move(done)) {
  query_.effort = std::max(*query_.effort, query_.k);
  result_.neighbours.resize(query_.queries.size());
  result_.stats.survivors.resize(query_.queries.size());
  is_exact_.resize(query_.queries.size());
}

void HnswSearch::Begin() {
  result_.stats.waited = std::chrono::steady_clock::now() - arrived_;
  if (stop_.ShouldStop()) return Finish();
  eligible_.emplace(query_.filter, rows_.table.num_rows());
  k_ = std::min(query_.k, eligible_->count());
  for (std::vector<int64_t>& rows : query_.excluded_rows) std::sort(rows.begin(), rows.end());
  if (eligible_->list() != nullptr || ScanIsNoMoreWork()) {
    std::fill(is_exact_.begin(), is_exact_.end(), uint8_t{1});
    return AskExactSearch();
  }
  const auto num_queries = static_cast<int64_t>(query_.queries.size());
  counter_.emplace(num_queries, 1);
  const int64_t steps = *query_.effort * rows_.graph.parameters().m;
  const int num_lanes = static_cast<int>(
      std::min<int64_t>(num_queries, LanesFor(num_queries * steps * rows_.table.dim(), pool_.num_threads())));
  if (num_lanes == 1) {
    WalkQueries(num_lanes);
    return AskExactSearch();
  }
  pool_.Submit(
      num_lanes, [self = shared_from_this(), num_lanes](int) { self->WalkQueries(num_lanes); },
      [self = shared_from_this()] { self->AskExactSearch(); });
}

bool HnswSearch::ScanIsNoMoreWork() const {
  if (eligible_->count() == 0) return true;
  // Some 2 m rows are new at each of the steps, of which there are as many more as the filter keeps fewer rows.
  const double share = static_cast<double>(eligible_->count()) / static_cast<double>(rows_.table.num_rows());
  const double walked = static_cast<double>(*query_.effort) * 2 * rows_.graph.parameters().m / share;
  return walked > static_cast<double>(rows_.table.num_rows());
}

void HnswSearch::WalkQueries(int num_lanes) {
  const bool is_filtered = eligible_->count() < rows_.table.num_rows();
  // Of few queries each lane takes its share at once, not the first lane that of the others.
  const auto lanes = static_cast<size_t>(num_lanes);
  const size_t share = (query_.queries.size() + lanes - 1) / lanes;
  const size_t most = is_filtered ? 1 : std::min(kWalksInTurns, share);
  std::vector<std::unique_ptr<HnswWalk>> walks;
  while (walks.size() < most) walks.push_back(rows_.walks.Take());
  int64_t scored = 0;
  for (const auto& walk : walks) scored -= walk->rows_scored();
  if (is_filtered) {
    WalkAmong(*walks[0]);
  } else {
    WalkInTurns(walks);
  }
  for (const auto& walk : walks) scored += walk->rows_scored();
  rows_scanned_.fetch_add(scored, std::memory_order_relaxed);
  for (auto& walk : walks) rows_.walks.Return(std::move(walk));
}

void HnswSearch::WalkAmong(HnswWalk& walk) {
  int64_t begin;
  int64_t end;
  while (!stop_.ShouldStop() && counter_->Take(&begin, &end)) {
    const auto query = static_cast<size_t>(begin);
    bool is_answered = walk.query().SetVector(query_.queries[query]);
    if (is_answered) {
      const std::span<const WalkedRow> found = walk.RunAmong(
          static_cast<size_t>(*query_.effort), [&](uint32_t row) { return MayKeep(query, row); }, stop_);
      is_answered = stop_.stopped() || Answer(query, found, walk.query());
    }
    is_exact_[query] = is_answered ? 0 : 1;
  }
}

void HnswSearch::WalkInTurns(std::span<const std::unique_ptr<HnswWalk>> walks) {
  constexpr size_t kIdle = ~size_t{0};
  std::vector<size_t> query_of(walks.size(), kIdle);
  // Sets a walk out on the next query that there is.
  const auto start_next = [&](size_t i) {
    query_of[i] = kIdle;
    int64_t begin;
    int64_t end;
    while (!stop_.ShouldStop() && counter_->Take(&begin, &end)) {
      const auto query = static_cast<size_t>(begin);
      if (!walks[i]->query().SetVector(query_.queries[query])) {
        is_exact_[query] = 1;
        continue;
      }
      query_of[i] = query;
      // Without a filter the few rows that are excluded take up room of their own.
      const size_t excluded = query_.excluded_rows.empty() ? 0 : query_.excluded_rows[query].size();
      return walks[i]->Start(static_cast<size_t>(*query_.effort) + excluded);
    }
  };
  for (size_t i = 0; i < walks.size(); ++i) start_next(i);
  for (bool goes_on = true; goes_on && !stop_.ShouldStop();) {
    goes_on = false;
    for (size_t i = 0; i < walks.size(); ++i) {
      while (query_of[i] != kIdle && !walks[i]->Follow()) {
        is_exact_[query_of[i]] = Answer(query_of[i], walks[i]->found(), walks[i]->query()) ? 0 : 1;
        start_next(i);
      }
      goes_on = goes_on || query_of[i] != kIdle;
    }
    for (size_t i = 0; i < walks.size(); ++i) {
      if (query_of[i] != kIdle) walks[i]->Take();
    }
  }
}

bool HnswSearch::MayFind(size_t query, int64_t row) const {
  if (row < eligible_->begin() || row >= eligible_->end() || !eligible_->Contains(row)) return false;
  if (query_.excluded_rows.empty()) return true;
  const std::vector<int64_t>& excluded = query_.excluded_rows[query];
  return !std::binary_search(excluded.begin(), excluded.end(), row);
}

bool HnswSearch::MayKeep(size_t query, uint32_t row) const {
  if (MayFind(query, row)) return true;
  const auto& twins = rows_.outsiders.twins;
  for (auto it = std::lower_bound(twins.begin(), twins.end(), std::pair(row, uint32_t{0}));
       it != twins.end() && it->first == row; ++it) {
    if (MayFind(query, it->second)) return true;
  }
  return false;
}

std::vector<WalkedRow> HnswSearch::Narrow(size_t query, std::span<const WalkedRow> found,
                                          const HnswQuery& walked) const {
  std::vector<WalkedRow> kept;
  for (const WalkedRow& row : found) {
    if (MayKeep(query, row.row)) kept.push_back(row);
  }
  const auto k = static_cast<size_t>(k_);
  if (kept.size() <= k || !rows_.judged.is_coded()) return kept;
  std::vector<float> reach;
  std::vector<float> least;
  for (const auto& [closeness, row] : kept) {
    reach.push_back(rows_.judged.ReachOf(walked, row, closeness));
    least.push_back(closeness - reach.back());
  }
  std::nth_element(least.begin(), least.begin() + static_cast<ptrdiff_t>(k - 1), least.end(), std::greater<>());
  size_t left = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].closeness + reach[i] >= least[k - 1]) kept[left++] = kept[i];
  }
  kept.resize(left);
  return kept;
}

std::vector<int64_t> HnswSearch::Candidates(size_t query, const std::vector<WalkedRow>& found) const {
  std::vector<int64_t> ids;
  const auto& twins = rows_.outsiders.twins;
  for (const auto& [closeness, row] : found) {
    if (MayFind(query, row)) ids.push_back(row);
    if (twins.empty()) continue;
    // Twins tie: the lower ids come first, and no more than k can matter.
    int64_t left = k_;
    for (auto it = std::lower_bound(twins.begin(), twins.end(), std::pair(row, uint32_t{0}));
         left > 0 && it != twins.end() && it->first == row; ++it) {
      if (!MayFind(query, it->second)) continue;
      ids.push_back(it->second);
      --left;
    }
  }
  int64_t left = k_;  // zeros tie as well
  for (auto it = rows_.outsiders.zeros.begin(); left > 0 && it != rows_.outsiders.zeros.end(); ++it) {
    if (!MayFind(query, *it)) continue;
    ids.push_back(*it);
    --left;
  }
  for (const int64_t row : rows_.outsiders.unjudged) {
    if (MayFind(query, row)) ids.push_back(row);
  }
  return ids;
}

bool HnswSearch::Answer(size_t query, std::span<const WalkedRow> found, const HnswQuery& walked) {
  const EmbeddingTable& table = rows_.table;
  const std::vector<int64_t> ids = Candidates(query, Narrow(query, found, walked));
  if (static_cast<int64_t>(ids.size()) < k_) return false;

  std::vector<const void*> addresses;
  addresses.reserve(ids.size());
  for (const int64_t id : ids) addresses.push_back(table.row(id));
  std::vector<float> scores(ids.size());
  CanonicalQuery(query_.metric, query_.queries[query], table.dim())
      .Score(ElementTypeOf(table.dtype()), addresses.data(), ids.size(), nullptr, scores.data());
  TopK best(query_.metric, static_cast<size_t>(k_));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (query_.threshold && !Reaches(query_.metric, scores[i], *query_.threshold)) continue;
    best.Add({ids[i], scores[i]});
  }
  result_.neighbours[query] = best.TakeSorted();
  result_.stats.survivors[query] = static_cast<int64_t>(ids.size());
  return true;
}

void HnswSearch::AskExactSearch() {
  if (stop_.stopped()) return Finish();
  std::vector<size_t> asked;
  for (size_t i = 0; i < is_exact_.size(); ++i) {
    if (is_exact_[i] != 0) asked.push_back(i);
  }
  result_.exact = asked.size() == is_exact_.size();
  if (asked.empty()) return Finish();
  NeighbourQuery query = {query_.metric, query_.k, {}, {}, query_.filter, query_.threshold};
  for (const size_t i : asked) {
    query.queries.push_back(query_.queries[i]);
    if (!query_.excluded_rows.empty()) query.excluded_rows.push_back(std::move(query_.excluded_rows[i]));
  }
  rows_.exact.Start(
      std::move(query), pool_, [self = shared_from_this()] { return self->stop_.ShouldStop(); },
      [self = shared_from_this(), asked = std::move(asked)](NeighbourResult found) {
        SearchStats& stats = self->result_.stats;
        for (size_t i = 0; i < asked.size(); ++i) {
          self->result_.neighbours[asked[i]] = std::move(found.neighbours[i]);
          stats.survivors[asked[i]] = found.stats.survivors[i];
        }
        stats.rows_scanned = found.stats.rows_scanned;
        stats.blocks_scanned = found.stats.blocks_scanned;
        stats.fallback_queries = found.stats.fallback_queries;
        stats.pass_queries = std::move(found.stats.pass_queries);
        if (self->result_.exact) stats.waited += found.stats.waited;  // else time went by in walks, too
        self->Finish();
      });
}

void HnswSearch::Finish() {
  if (stop_.stopped()) {
    result_.outcome = WorkOutcome::kStopped;
    result_.neighbours.assign(query_.queries.size(), {});
  }
  result_.stats.rows_scanned += rows_scanned_.load(std::memory_order_relaxed);
  for (const int64_t rows : result_.stats.survivors) result_.stats.rows_rescored += rows;
  done_(std::move(result_));
}

}  // namespace embedding
