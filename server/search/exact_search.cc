#include "server/search/exact_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/kernels/codes.h"
#include "server/search/code_pass.h"
#include "server/search/float_pass.h"

namespace embedding {
namespace {

// At most so many queries share one read of the table: by then arithmetic, not memory, sets the pace.
constexpr size_t kGroupQueries = 64;
// Entries (of about 16 bytes) that a group's lanes may hold before survivors pile up.
constexpr int64_t kGroupEntries = int64_t{1} << 22;
// Survivors scored between two polls of the stop predicate.
constexpr int64_t kPieceWork = int64_t{1} << 17;
// What a query costs beside its scan, in multiply-adds.
constexpr int64_t kQueryWork = 2048;
// Queries of 8 bits are faster, but leave more survivors and have no use for less than a tile of them.
constexpr size_t kQueriesForBytes = 4;
constexpr int64_t kMaxByteDim = 65536;
// A candidate pass pays where it leaves most of the table unscored.
constexpr int64_t kMinRowsPerNeighbour = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Steps for an id of a filter or an exclusion, which are sorted or set in a bitmap.
constexpr int64_t kFilterIdWork = 16;

int64_t FilterWork(const NeighbourQuery& query, int64_t num_rows) {
  size_t ids = query.filter.deny.size();
  if (query.filter.allow.has_value()) ids += query.filter.allow->size();
  const int64_t bitmap_words = ids == 0 ? 0 : num_rows / 64;
  for (const std::vector<int64_t>& rows : query.excluded_rows) ids += rows.size();
  return static_cast<int64_t>(ids) * kFilterIdWork + bitmap_words;
}

}  // namespace

void ExactSearch::Start(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                        std::function<void(NeighbourResult)> done) {
  const EmbeddingTable& table = rows.table;
  const auto num_queries = static_cast<int64_t>(query.queries.size());
  auto search = std::make_shared<ExactSearch>(rows, std::move(query), pool, std::move(stop), std::move(done));
  const int64_t filter_work = FilterWork(search->query_, table.num_rows());
  search->on_worker_ = num_queries * (table.num_rows() * table.dim() + kQueryWork) + filter_work <= kInlineWork;
  if (num_queries * (4 * table.dim() + kQueryWork / 2) + filter_work <= kInlineWork) return search->Begin();
  pool.Submit(
      1, [](int) {},
      [search] {
        search->on_worker_ = true;
        search->Begin();
      });
}

ExactSearch::ExactSearch(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                         std::function<void(NeighbourResult)> done)
    : table_(rows.table),
      norms_(rows.norms),
      codes_(rows.codes),
      query_(std::move(query)),
      pool_(pool),
      stop_(std::move(stop)),
      done_(std::move(done)) {
  result_.neighbours.resize(query_.queries.size());
}

std::span<const int64_t> ExactSearch::ExcludedRows(size_t query) const {
  if (query_.excluded_rows.empty()) return {};
  return query_.excluded_rows[query];
}

void ExactSearch::Begin() {
  eligible_.emplace(query_.filter, table_.num_rows());
  k_ = std::min(query_.k, eligible_->count());
  for (std::vector<int64_t>& rows : query_.excluded_rows) std::sort(rows.begin(), rows.end());
  if (k_ == 0) return Finish();
  NextGroup();
}

void ExactSearch::Run(int64_t work, std::function<void(int)> lane, void (ExactSearch::*then)()) {
  const int num_lanes = LanesFor(work, pool_.num_threads());
  if (on_worker_ && num_lanes == 1) {
    lane(0);
    (this->*then)();
    return;
  }
  pool_.Submit(num_lanes, std::move(lane), [self = shared_from_this(), then] {
    self->on_worker_ = true;
    (self.get()->*then)();
  });
}

void ExactSearch::NextGroup() {
  group_begin_ = group_end_;
  if (group_begin_ == query_.queries.size() || stop_.ShouldStop()) return Finish();

  const bool is_listed = eligible_->list() != nullptr;
  const int64_t entries_per_query = is_listed ? eligible_->count() : (2 * k_ + 64) * pool_.num_threads();
  const auto most = static_cast<size_t>(std::clamp<int64_t>(kGroupEntries / entries_per_query, 1, kGroupQueries));
  group_end_ = std::min(query_.queries.size(), group_begin_ + most);

  canonical_queries_.clear();
  waiting_queries_.clear();
  fallback_queries_.clear();
  survivors_.clear();
  for (size_t q = group_begin_; q < group_end_; ++q) {
    canonical_queries_.emplace_back(query_.metric, query_.queries[q], table_.dim());
    waiting_queries_.push_back(q);
  }
  if (is_listed) return ListSurvivors();
  if (!PassPays()) {
    fallback_queries_ = std::move(waiting_queries_);
    return ScanCanonically();
  }
  if (codes_ != nullptr) return ScanCodes();
  ScanFloats();
}

void ExactSearch::ScanCodes() {
  const bool in_bytes = HasFastByteDots() && waiting_queries_.size() >= kQueriesForBytes && table_.dim() <= kMaxByteDim;
  std::vector<size_t> without_bound;
  std::vector<CodeBound> bounds;
  std::vector<CandidateScan::Query> queries;
  candidate_queries_.clear();
  for (const size_t q : waiting_queries_) {
    std::optional<CodeBound> bound = CodeBound::Of(query_.metric, query_.queries[q], *codes_, in_bytes);
    if (!bound.has_value()) {
      without_bound.push_back(q);
      continue;
    }
    candidate_queries_.push_back(q);
    queries.push_back({ExcludedRows(q), query_.threshold.has_value() ? bound->TauOf(*query_.threshold) : -kInfinity});
    bounds.push_back(*std::move(bound));
  }
  waiting_queries_ = std::move(without_bound);
  if (queries.empty()) return ScanFloats();
  floats_come_next_ = true;
  StartPass(std::make_unique<CodePass>(*codes_, norms_, std::move(bounds)), std::move(queries));
}

void ExactSearch::ScanFloats() {
  floats_come_next_ = false;
  std::vector<CandidateBound> bounds;
  std::vector<CandidateScan::Query> queries;
  candidate_queries_.clear();
  for (const size_t q : waiting_queries_) {
    std::optional<CandidateBound> bound = CandidateBound::Of(query_.metric, query_.queries[q], table_.dim());
    if (!bound.has_value()) {
      fallback_queries_.push_back(q);
      continue;
    }
    candidate_queries_.push_back(q);
    queries.push_back({ExcludedRows(q), query_.threshold.has_value() ? bound->TauOf(*query_.threshold) : -kInfinity});
    bounds.push_back(*std::move(bound));
  }
  waiting_queries_.clear();
  if (queries.empty()) return ScoreSurvivors();
  StartPass(std::make_unique<FloatPass>(table_, norms_, query_.metric, std::move(bounds)), std::move(queries));
}

void ExactSearch::StartPass(std::unique_ptr<const CandidatePass> pass, std::vector<CandidateScan::Query> queries) {
  const int64_t work = (eligible_->end() - eligible_->begin()) * table_.dim() * static_cast<int64_t>(queries.size());
  candidate_scan_ = std::make_unique<CandidateScan>(std::move(pass), table_.dim(), *eligible_, k_, std::move(queries),
                                                    LanesFor(work, pool_.num_threads()), stop_);
  Run(
      work, [this](int lane) { candidate_scan_->RunLane(lane); }, &ExactSearch::CollectSurvivors);
}

bool ExactSearch::PassPays() const {
  const int64_t num_rows = eligible_->end() - eligible_->begin();
  const auto num_unjudged = static_cast<int64_t>(Within(norms_.unjudged, eligible_->begin(), eligible_->end()).size());
  return num_rows >= kMinRowsPerNeighbour * k_ &&
         table_.num_rows() <= std::numeric_limits<int32_t>::max() &&  // Candidate's ids
         num_unjudged <= num_rows / 16;
}

void ExactSearch::ListSurvivors() {
  for (size_t q = group_begin_; q < group_end_; ++q) {
    Survivors& of_query = survivors_.emplace_back();
    of_query.query = q;
    const std::span<const int64_t> excluded = ExcludedRows(q);
    for (const int64_t row : *eligible_->list()) {
      const bool is_excluded = std::binary_search(excluded.begin(), excluded.end(), row);
      if (!is_excluded && table_.IsFinite(row)) of_query.ids.push_back(row);
    }
    of_query.scores.resize(of_query.ids.size());
  }
  ScoreSurvivors();
}

void ExactSearch::CollectSurvivors() {
  result_.stats.blocks_scanned += candidate_scan_->blocks_scanned();
  result_.stats.rows_scanned += candidate_scan_->rows_scanned();
  if (stop_.stopped()) return Finish();
  const size_t first = survivors_.size();
  survivors_.resize(first + candidate_queries_.size());
  gave_up_.assign(candidate_queries_.size(), 0);
  counter_ = std::make_unique<BlockCounter>(static_cast<int64_t>(candidate_queries_.size()), 1);
  // Some 16 steps per entry for the selection of the k-th best.
  const int64_t work = static_cast<int64_t>(candidate_queries_.size()) * (2 * k_ + 64) * 16;
  Run(
      work,
      [this, first](int) {
        int64_t begin;
        int64_t end;
        while (!stop_.ShouldStop() && counter_->Take(&begin, &end)) {
          const auto i = static_cast<size_t>(begin);
          Survivors& of_query = survivors_[first + i];
          of_query.query = candidate_queries_[i];
          std::optional<std::vector<int64_t>> ids = candidate_scan_->Survivors(i);
          gave_up_[i] = ids.has_value() ? 0 : 1;
          if (ids.has_value()) of_query.ids = *std::move(ids);
          of_query.scores.resize(of_query.ids.size());
        }
      },
      &ExactSearch::EndPass);
}

void ExactSearch::EndPass() {
  candidate_scan_.reset();
  if (stop_.stopped()) return Finish();
  std::vector<size_t>& next = floats_come_next_ ? waiting_queries_ : fallback_queries_;
  for (size_t i = 0; i < gave_up_.size(); ++i) {
    if (gave_up_[i] != 0) next.push_back(candidate_queries_[i]);
  }
  std::erase_if(survivors_, [&next](const Survivors& of_query) {
    return std::find(next.begin(), next.end(), of_query.query) != next.end();
  });
  if (floats_come_next_) return ScanFloats();
  ScoreSurvivors();
}

void ExactSearch::ScoreSurvivors() {
  pieces_.clear();
  const auto piece_rows = static_cast<size_t>(std::max<int64_t>(4, kPieceWork / table_.dim()));
  int64_t rows = 0;
  for (size_t i = 0; i < survivors_.size(); ++i) {
    const size_t size = survivors_[i].ids.size();
    rows += static_cast<int64_t>(size);
    for (size_t begin = 0; begin < size; begin += piece_rows) {
      pieces_.push_back({i, begin, std::min(size, begin + piece_rows)});
    }
  }
  result_.stats.rows_rescored += rows;
  counter_ = std::make_unique<BlockCounter>(static_cast<int64_t>(pieces_.size()), 1);
  Run(
      rows * table_.dim(),
      [this](int) {
        std::vector<const void*> addresses;
        int64_t begin;
        int64_t end;
        while (!stop_.ShouldStop() && counter_->Take(&begin, &end)) {
          const Piece& piece = pieces_[static_cast<size_t>(begin)];
          Survivors& of_query = survivors_[piece.survivors];
          addresses.clear();
          for (size_t i = piece.begin; i < piece.end; ++i) addresses.push_back(table_.row(of_query.ids[i]));
          canonical_queries_[of_query.query - group_begin_].Score(ElementTypeOf(table_.dtype()), addresses.data(),
                                                                  addresses.size(), nullptr,
                                                                  of_query.scores.data() + piece.begin);
        }
      },
      &ExactSearch::SelectSurvivors);
}

void ExactSearch::SelectSurvivors() {
  if (stop_.stopped()) return Finish();
  int64_t rows = 0;
  for (const Survivors& of_query : survivors_) rows += static_cast<int64_t>(of_query.ids.size());
  counter_ = std::make_unique<BlockCounter>(static_cast<int64_t>(survivors_.size()), 1);
  // Some 64 steps per entry for the sort.
  Run(
      rows * 64,
      [this](int) {
        int64_t begin;
        int64_t end;
        while (!stop_.ShouldStop() && counter_->Take(&begin, &end)) {
          const Survivors& of_query = survivors_[static_cast<size_t>(begin)];
          TopK best(query_.metric, static_cast<size_t>(k_));
          for (size_t i = 0; i < of_query.ids.size(); ++i) {
            const Neighbour entry{of_query.ids[i], of_query.scores[i]};
            const bool is_close = !query_.threshold || Reaches(query_.metric, entry.score, *query_.threshold);
            if (is_close) best.Add(entry);
          }
          result_.neighbours[of_query.query] = best.TakeSorted();
        }
      },
      &ExactSearch::ScanCanonically);
}

void ExactSearch::ScanCanonically() {
  if (stop_.stopped()) return Finish();
  if (fallback_queries_.empty()) return NextGroup();
  result_.stats.fallback_queries += static_cast<int64_t>(fallback_queries_.size());
  std::vector<CanonicalScan::Query> queries;
  for (size_t q : fallback_queries_) queries.push_back({&canonical_queries_[q - group_begin_], ExcludedRows(q)});
  const int64_t work = (eligible_->end() - eligible_->begin()) * table_.dim() * static_cast<int64_t>(queries.size());
  canonical_scan_ = std::make_unique<CanonicalScan>(table_, *eligible_, query_.metric, k_, query_.threshold,
                                                    std::move(queries), LanesFor(work, pool_.num_threads()), stop_);
  Run(
      work, [this](int lane) { canonical_scan_->RunLane(lane); }, &ExactSearch::TakeCanonical);
}

void ExactSearch::TakeCanonical() {
  result_.stats.blocks_scanned += canonical_scan_->blocks_scanned();
  result_.stats.rows_rescored += canonical_scan_->rows_scored();
  if (stop_.stopped()) return Finish();
  counter_ = std::make_unique<BlockCounter>(static_cast<int64_t>(fallback_queries_.size()), 1);
  const int64_t work = static_cast<int64_t>(fallback_queries_.size()) * (2 * k_ + 64) * 64;
  Run(
      work,
      [this](int) {
        int64_t begin;
        int64_t end;
        while (!stop_.ShouldStop() && counter_->Take(&begin, &end)) {
          const auto i = static_cast<size_t>(begin);
          result_.neighbours[fallback_queries_[i]] = canonical_scan_->Take(i);
        }
      },
      &ExactSearch::NextGroup);
}

void ExactSearch::Finish() {
  if (stop_.stopped()) {
    result_.outcome = WorkOutcome::kStopped;
    result_.neighbours.assign(query_.queries.size(), {});
  }
  done_(std::move(result_));
}

}  // namespace embedding
