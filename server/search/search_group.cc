#include "server/search/search_group.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/kernels/codes.h"
#include "server/search/code_pass.h"
#include "server/search/float_pass.h"

namespace embedding {
namespace {

// Survivors scored between two polls of the stop predicate.
constexpr int64_t kPieceWork = int64_t{1} << 17;
// Queries of 8 bits are faster, but leave more survivors and have no use for less than a tile of them.
constexpr size_t kQueriesForBytes = 4;
constexpr int64_t kMaxByteDim = 65536;
// A candidate pass pays where it leaves most of the table unscored.
constexpr int64_t kMinRowsPerNeighbour = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Steps of coding a query in 16 bits and in 8, for each of its elements.
constexpr int64_t kCodingWork = 32;
// Polls between two that ask those who wait, too: well below a millisecond.
constexpr uint32_t kPollsForOthers = 4;

}  // namespace

bool PassPays(const SearchedRows& rows, const EligibleRows& eligible, int64_t k) {
  const int64_t num_rows = eligible.end() - eligible.begin();
  const auto num_unjudged = static_cast<int64_t>(Within(rows.norms.unjudged, eligible.begin(), eligible.end()).size());
  return num_rows >= kMinRowsPerNeighbour * k &&
         rows.table.num_rows() <= std::numeric_limits<int32_t>::max() &&  // Candidate's ids
         num_unjudged <= num_rows / 16;
}

void SearchGroup::Start(const SearchedRows& rows, std::vector<Member> members, WorkerPool& pool, bool on_worker,
                        PollOthers poll_others, MembersDone done) {
  std::make_shared<SearchGroup>(rows, std::move(members), pool, on_worker, std::move(poll_others), std::move(done))
      ->Begin();
}

SearchGroup::SearchGroup(const SearchedRows& rows, std::vector<Member> members, WorkerPool& pool, bool on_worker,
                         PollOthers poll_others, MembersDone done)
    : table_(rows.table),
      norms_(rows.norms),
      codes_(rows.codes),
      pool_(pool),
      poll_others_(std::move(poll_others)),
      done_(std::move(done)),
      on_worker_(on_worker),
      members_(std::move(members)),
      is_released_(members_.size()),
      has_stopped_(std::make_unique<std::atomic<bool>[]>(members_.size())),
      num_wanted_(members_.size()) {}

bool SearchGroup::ShouldStop() {
  if (poll_others_ && num_polls_.fetch_add(1, std::memory_order_relaxed) % kPollsForOthers == kPollsForOthers - 1) {
    poll_others_();
  }
  for (size_t m = 0; m < members_.size(); ++m) {
    Member& member = members_[m];
    if (is_released_[m] != 0 || !member.caller->stop.ShouldStop()) continue;
    if (has_stopped_[m].exchange(true)) continue;
    // The last one is told in Finish: until then it keeps alive what other lanes still read.
    if (num_wanted_.fetch_sub(1) == 1) break;
    member.was_told = true;
    member.caller->End();
  }
  return stopped();
}

void SearchGroup::DropUnwanted(std::vector<size_t>& queries) const {
  std::erase_if(queries, [this](size_t query) { return !IsWanted(query); });
}

std::span<const int64_t> SearchGroup::ExcludedRows(size_t query) const {
  const std::vector<std::vector<int64_t>>& excluded = CallerOf(query).query.excluded_rows;
  if (excluded.empty()) return {};
  return excluded[queries_[query].number];
}

RowsWanted SearchGroup::WantedBy(size_t query, float tau) const {
  const SearchCaller& caller = CallerOf(query);
  return {&*caller.eligible, caller.k, ExcludedRows(query), tau, &caller.stop};
}

SearchGroup::Range SearchGroup::RangeOf(const std::vector<size_t>& queries) const {
  Range range = {table_.num_rows(), 0};
  for (const size_t q : queries) {
    range.begin = std::min(range.begin, CallerOf(q).eligible->begin());
    range.end = std::max(range.end, CallerOf(q).eligible->end());
  }
  return range;
}

void SearchGroup::Begin() {
  const auto now = std::chrono::steady_clock::now();
  for (size_t m = 0; m < members_.size(); ++m) {
    SearchCaller& caller = *members_[m].caller;
    if (!caller.started.has_value()) caller.started = now;
    const size_t end = members_[m].first + members_[m].count;
    for (size_t number = members_[m].first; number < end; ++number) {
      const VectorView vector = caller.query.queries[number];
      queries_.push_back({m, number, CanonicalQuery(caller.query.metric, vector, table_.dim())});
      waiting_queries_.push_back(queries_.size() - 1);
    }
  }
  if (ShouldStop()) return Finish();
  const SearchCaller& first = *members_.front().caller;
  if (first.eligible->list() != nullptr) return ListSurvivors();
  if (members_.size() == 1 && !PassPays({table_, norms_, codes_}, *first.eligible, first.k)) {
    fallback_queries_ = std::move(waiting_queries_);
    return ScanCanonically();
  }
  pass_queries_ = static_cast<int64_t>(queries_.size());
  if (codes_ != nullptr) return ScanCodes();
  ScanFloats();
}

void SearchGroup::Run(int64_t work, std::function<void(int)> lane, void (SearchGroup::*then)()) {
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

void SearchGroup::RunItems(size_t num_items, int64_t work, std::function<void(size_t)> item,
                           void (SearchGroup::*then)()) {
  counter_ = std::make_unique<BlockCounter>(static_cast<int64_t>(num_items), 1);
  Run(
      work,
      [this, item = std::move(item)](int) {
        int64_t begin;
        int64_t end;
        while (!ShouldStop() && counter_->Take(&begin, &end)) item(static_cast<size_t>(begin));
      },
      then);
}

void SearchGroup::ScanCodes() {
  DropUnwanted(waiting_queries_);
  code_bounds_.assign(waiting_queries_.size(), std::nullopt);
  byte_bounds_.assign(waiting_queries_.size(), std::nullopt);
  const bool in_bytes = HasFastByteDots() && waiting_queries_.size() >= kQueriesForBytes && table_.dim() <= kMaxByteDim;
  RunItems(
      waiting_queries_.size(), static_cast<int64_t>(waiting_queries_.size()) * table_.dim() * kCodingWork,
      [this, in_bytes](size_t i) {
        const size_t q = waiting_queries_[i];
        const CanonicalQuery& vector = queries_[q].canonical;
        code_bounds_[i] = CodeBound::Of(vector.metric(), vector.view(), *codes_, /*in_bytes=*/false);
        if (in_bytes) byte_bounds_[i] = CodeBound::Of(vector.metric(), vector.view(), *codes_, /*in_bytes=*/true);
      },
      &SearchGroup::StartCodePass);
}

void SearchGroup::StartCodePass() {
  if (stopped()) return Finish();
  // A query has both bounds or neither but in odd cases, which then are not worth a second pass.
  const bool in_bytes = std::all_of(code_bounds_.begin(), code_bounds_.end(), [this](const auto& bound) {
    return !bound.has_value() || byte_bounds_[static_cast<size_t>(&bound - code_bounds_.data())].has_value();
  });
  std::vector<size_t> without_bound;
  std::vector<CodeBound> bounds;
  std::vector<CodeBound> byte_bounds;
  std::vector<RowsWanted> wanted;
  candidate_queries_.clear();
  for (size_t i = 0; i < waiting_queries_.size(); ++i) {
    const size_t q = waiting_queries_[i];
    if (!code_bounds_[i].has_value()) {
      without_bound.push_back(q);
      continue;
    }
    const std::optional<float> threshold = CallerOf(q).query.threshold;
    candidate_queries_.push_back(q);
    wanted.push_back(WantedBy(q, threshold.has_value() ? code_bounds_[i]->TauOf(*threshold) : -kInfinity));
    bounds.push_back(*std::move(code_bounds_[i]));
    if (in_bytes) byte_bounds.push_back(*std::move(byte_bounds_[i]));
  }
  waiting_queries_ = std::move(without_bound);
  if (wanted.empty()) return ScanFloats();
  floats_come_next_ = true;
  StartPass(std::make_unique<CodePass>(*codes_, norms_, std::move(bounds), std::move(byte_bounds)), std::move(wanted));
}

void SearchGroup::ScanFloats() {
  floats_come_next_ = false;
  std::vector<CandidateBound> bounds;
  std::vector<RowsWanted> wanted;
  candidate_queries_.clear();
  DropUnwanted(waiting_queries_);
  for (const size_t q : waiting_queries_) {
    const NeighbourQuery& query = CallerOf(q).query;
    std::optional<CandidateBound> bound = CandidateBound::Of(query.metric, VectorOf(q), table_.dim());
    if (!bound.has_value()) {
      fallback_queries_.push_back(q);
      continue;
    }
    candidate_queries_.push_back(q);
    wanted.push_back(WantedBy(q, query.threshold.has_value() ? bound->TauOf(*query.threshold) : -kInfinity));
    bounds.push_back(*std::move(bound));
  }
  waiting_queries_.clear();
  if (wanted.empty()) return ScoreSurvivors();
  const Metric metric = members_.front().caller->query.metric;
  StartPass(std::make_unique<FloatPass>(table_, norms_, metric, std::move(bounds)), std::move(wanted));
}

void SearchGroup::StartPass(std::unique_ptr<const CandidatePass> pass, std::vector<RowsWanted> wanted) {
  const Range range = RangeOf(candidate_queries_);
  const int64_t work = (range.end - range.begin) * table_.dim() * static_cast<int64_t>(wanted.size());
  candidate_scan_ =
      std::make_unique<CandidateScan>(std::move(pass), table_.dim(), range.begin, range.end, std::move(wanted),
                                      LanesFor(work, pool_.num_threads()), StopOfGroup());
  Run(
      work, [this](int lane) { candidate_scan_->RunLane(lane); }, &SearchGroup::CollectSurvivors);
}

void SearchGroup::ListSurvivors() {
  for (size_t q = 0; q < queries_.size(); ++q) {
    Survivors& of_query = survivors_.emplace_back();
    of_query.query = q;
    const std::span<const int64_t> excluded = ExcludedRows(q);
    for (const int64_t row : *CallerOf(q).eligible->list()) {
      const bool is_excluded = std::binary_search(excluded.begin(), excluded.end(), row);
      if (!is_excluded && table_.IsFinite(row)) of_query.ids.push_back(row);
    }
    of_query.scores.resize(of_query.ids.size());
  }
  ScoreSurvivors();
}

void SearchGroup::CollectSurvivors() {
  blocks_scanned_ += candidate_scan_->blocks_scanned();
  for (const size_t q : candidate_queries_) queries_[q].num_scanned += candidate_scan_->rows_scanned();
  if (stopped()) return Finish();
  const size_t first = survivors_.size();
  survivors_.resize(first + candidate_queries_.size());
  gave_up_.assign(candidate_queries_.size(), 0);
  int64_t work = 0;
  // Some 16 steps per entry for the selection of the k-th best.
  for (const size_t q : candidate_queries_) work += (2 * CallerOf(q).k + 64) * 16;
  RunItems(
      candidate_queries_.size(), work,
      [this, first](size_t i) {
        Survivors& of_query = survivors_[first + i];
        of_query.query = candidate_queries_[i];
        std::optional<std::vector<int64_t>> ids = candidate_scan_->Survivors(i);
        gave_up_[i] = ids.has_value() ? 0 : 1;
        if (ids.has_value()) of_query.ids = *std::move(ids);
        of_query.scores.resize(of_query.ids.size());
      },
      &SearchGroup::EndPass);
}

void SearchGroup::EndPass() {
  candidate_scan_.reset();
  if (stopped()) return Finish();
  std::vector<size_t>& next = floats_come_next_ ? waiting_queries_ : fallback_queries_;
  for (size_t i = 0; i < gave_up_.size(); ++i) {
    if (gave_up_[i] != 0) next.push_back(candidate_queries_[i]);
  }
  std::erase_if(survivors_, [this, &next](const Survivors& of_query) {
    return !IsWanted(of_query.query) || std::find(next.begin(), next.end(), of_query.query) != next.end();
  });
  if (floats_come_next_) return ScanFloats();
  ScoreSurvivors();
}

void SearchGroup::ScoreSurvivors() {
  pieces_.clear();
  const auto piece_rows = static_cast<size_t>(std::max<int64_t>(4, kPieceWork / table_.dim()));
  int64_t rows = 0;
  for (size_t i = 0; i < survivors_.size(); ++i) {
    const size_t size = survivors_[i].ids.size();
    rows += static_cast<int64_t>(size);
    queries_[survivors_[i].query].num_rescored += static_cast<int64_t>(size);
    for (size_t begin = 0; begin < size; begin += piece_rows) {
      pieces_.push_back({i, begin, std::min(size, begin + piece_rows)});
    }
  }
  RunItems(
      pieces_.size(), rows * table_.dim(),
      [this](size_t i) {
        const Piece& piece = pieces_[i];
        Survivors& of_query = survivors_[piece.survivors];
        std::vector<const void*> addresses;
        addresses.reserve(piece.end - piece.begin);
        for (size_t at = piece.begin; at < piece.end; ++at) addresses.push_back(table_.row(of_query.ids[at]));
        queries_[of_query.query].canonical.Score(ElementTypeOf(table_.dtype()), addresses.data(), addresses.size(),
                                                 nullptr, of_query.scores.data() + piece.begin);
      },
      &SearchGroup::SelectSurvivors);
}

void SearchGroup::SelectSurvivors() {
  if (stopped()) return Finish();
  int64_t rows = 0;
  for (const Survivors& of_query : survivors_) rows += static_cast<int64_t>(of_query.ids.size());
  // Some 64 steps per entry for the sort.
  RunItems(
      survivors_.size(), rows * 64,
      [this](size_t i) {
        const Survivors& of_query = survivors_[i];
        const SearchCaller& caller = CallerOf(of_query.query);
        const Metric metric = caller.query.metric;
        const std::optional<float> threshold = caller.query.threshold;
        TopK best(metric, static_cast<size_t>(caller.k));
        for (size_t at = 0; at < of_query.ids.size(); ++at) {
          const Neighbour entry{of_query.ids[at], of_query.scores[at]};
          if (!threshold.has_value() || Reaches(metric, entry.score, *threshold)) best.Add(entry);
        }
        queries_[of_query.query].found = best.TakeSorted();
      },
      &SearchGroup::ReleaseAnswered);
}

void SearchGroup::ReleaseAnswered() {
  if (stopped() || fallback_queries_.empty()) return Finish();
  std::vector<uint8_t> falls_back(members_.size());
  for (const size_t q : fallback_queries_) falls_back[queries_[q].member] = 1;
  std::vector<size_t> answered;
  for (size_t m = 0; m < members_.size(); ++m) {
    if (falls_back[m] == 0) answered.push_back(m);
  }
  if (!answered.empty()) HandOver(std::move(answered), /*last=*/false);
  if (stopped()) return Finish();
  ScanCanonically();
}

void SearchGroup::ScanCanonically() {
  DropUnwanted(fallback_queries_);
  if (stopped() || fallback_queries_.empty()) return Finish();
  std::vector<CanonicalScan::Query> queries;
  for (const size_t q : fallback_queries_) {
    queries.push_back({&queries_[q].canonical, WantedBy(q, -kInfinity), CallerOf(q).query.threshold});
  }
  const Range range = RangeOf(fallback_queries_);
  const int64_t work = (range.end - range.begin) * table_.dim() * static_cast<int64_t>(queries.size());
  canonical_scan_ = std::make_unique<CanonicalScan>(
      table_, range.begin, range.end, members_[queries_[fallback_queries_.front()].member].caller->query.metric,
      std::move(queries), LanesFor(work, pool_.num_threads()), StopOfGroup());
  Run(
      work, [this](int lane) { canonical_scan_->RunLane(lane); }, &SearchGroup::TakeCanonical);
}

void SearchGroup::TakeCanonical() {
  blocks_scanned_ += canonical_scan_->blocks_scanned();
  int64_t work = 0;
  for (const size_t q : fallback_queries_) {
    queries_[q].num_rescored += canonical_scan_->rows_scored();
    queries_[q].fell_back = true;
    work += (2 * CallerOf(q).k + 64) * 64;
  }
  if (stopped()) return Finish();
  RunItems(
      fallback_queries_.size(), work,
      [this](size_t i) { queries_[fallback_queries_[i]].found = canonical_scan_->Take(i); }, &SearchGroup::Finish);
}

void SearchGroup::Finish() {
  std::vector<size_t> rest;
  for (size_t m = 0; m < members_.size(); ++m) {
    if (is_released_[m] == 0) rest.push_back(m);
  }
  HandOver(std::move(rest), /*last=*/true);
}

void SearchGroup::HandOver(std::vector<size_t> members, bool last) {
  for (Query& query : queries_) {
    const Member& member = members_[query.member];
    if (member.was_told || std::find(members.begin(), members.end(), query.member) == members.end()) continue;
    NeighbourResult& result = member.caller->result;
    result.neighbours[query.number] = std::move(query.found);
    result.stats.survivors[query.number] = query.num_rescored;
    result.stats.rows_scanned += query.num_scanned;
    result.stats.rows_rescored += query.num_rescored;
    result.stats.fallback_queries += query.fell_back ? 1 : 0;
  }
  std::vector<Member> released;
  for (const size_t m : members) {
    is_released_[m] = 1;
    // One that has stopped was taken off before.
    if (!has_stopped_[m].load()) num_wanted_.fetch_sub(1);
    Member& member = members_[m];
    if (!member.was_told) {
      NeighbourResult& result = member.caller->result;
      result.stats.blocks_scanned += blocks_scanned_;
      if (pass_queries_ > 0) result.stats.pass_queries.push_back(std::exchange(pass_queries_, 0));
      member.caller->next_query = member.first + member.count;
    }
    released.push_back(std::move(member));  // what the caller holds is not to wait for a canonical scan of others
  }
  done_(std::move(released), last);
}

}  // namespace embedding
