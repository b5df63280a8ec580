// One group of queries, of one caller or several, from the queries to their neighbours, as a chain of jobs on the pool.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/exec/worker_pool.h"
#include "server/search/candidate_scan.h"
#include "server/search/canonical_scan.h"
#include "server/search/code_bound.h"
#include "server/search/row_codes.h"
#include "server/search/search_caller.h"

namespace embedding {

// At most so many queries share one read of the table: by then arithmetic, not memory, sets the pace.
constexpr size_t kGroupQueries = 64;

// What is searched.
struct SearchedRows {
  const EmbeddingTable& table;
  const RowNorms& norms;
  const RowCodes* codes;  // null: none
};

// Whether a pass over the rows pays for this search; else its rows are scored canonically, all of them.
bool PassPays(const SearchedRows& rows, const EligibleRows& eligible, int64_t k);

// A group is one pass of candidates over the rows' codes, where there are any; one over the rows in float32 for the
// queries whose candidates the codes could not tell apart; canonical scores for the survivors; and a canonical scan for
// queries that no pass has a bound for, or too many survivors. Where the filter leaves few rows, they are the
// survivors, without a pass. Each query has its own k, filter, exclusions and threshold; all have one metric.
//
// Callers are polled between blocks. One that wants no more is told at once, and nothing more is selected or scored for
// it; the last of a group only once all work has ended, because what is searched need not live longer.
class SearchGroup : public std::enable_shared_from_this<SearchGroup> {
 public:
  // Queries [first, first + count) of a caller.
  struct Member {
    std::shared_ptr<SearchCaller> caller;
    size_t first;
    size_t count;
    bool was_told = false;  // it wanted no more, and knows that it has ended
  };
  // Gets each member once, when its queries have been answered or its caller wants no more; `last` with the last ones.
  // A caller with queries left must then get another group, any other one its End, unless was_told. Members whose
  // queries need a canonical scan come later than those that do not.
  using MembersDone = std::function<void(std::vector<Member> members, bool last)>;
  // Called now and then while the group works, from any of its threads.
  using PollOthers = std::function<void()>;

  // At least one member, all of one metric; either all of them share (PassPays holds, and the eligible rows have no
  // list), or there is one. on_worker: the group may work on this thread.
  static void Start(const SearchedRows& rows, std::vector<Member> members, WorkerPool& pool, bool on_worker,
                    PollOthers poll_others, MembersDone done);

  SearchGroup(const SearchedRows& rows, std::vector<Member> members, WorkerPool& pool, bool on_worker,
              PollOthers poll_others, MembersDone done);

 private:
  struct Query {
    size_t member;
    size_t number;             // of the caller's
    CanonicalQuery canonical;  // its vector, widened
    std::vector<Neighbour> found = {};
    int64_t num_scanned = 0;
    int64_t num_rescored = 0;
    bool fell_back = false;
  };
  // Rows of one query that survived a candidate pass, and their scores.
  struct Survivors {
    size_t query = 0;  // index
    std::vector<int64_t> ids;
    std::vector<float> scores;
  };
  struct Piece {
    size_t survivors;  // index
    size_t begin;
    size_t end;
  };
  struct Range {
    int64_t begin;
    int64_t end;
  };

  const SearchCaller& CallerOf(size_t query) const { return *members_[queries_[query].member].caller; }
  bool IsWanted(size_t query) const { return !CallerOf(query).stop.stopped(); }
  // Drops queries that nobody wants any more, before a step reads their vectors.
  void DropUnwanted(std::vector<size_t>& queries) const;
  // Ascending.
  std::span<const int64_t> ExcludedRows(size_t query) const;
  VectorView VectorOf(size_t query) const { return CallerOf(query).query.queries[queries_[query].number]; }
  RowsWanted WantedBy(size_t query, float tau) const;
  // The smallest range that holds every row that one of the queries may find.
  Range RangeOf(const std::vector<size_t>& queries) const;

  // Asks every caller; true once none wants an answer. Any thread.
  bool ShouldStop();
  bool stopped() const { return num_wanted_.load(std::memory_order_relaxed) == 0; }
  StopPredicate StopOfGroup() {
    return [this] { return ShouldStop(); };
  }

  void Begin();
  void ListSurvivors();
  // One pass for the queries that wait for it; those without a bound wait for the next kind of pass.
  void ScanCodes();
  void StartCodePass();
  void ScanFloats();
  void StartPass(std::unique_ptr<const CandidatePass> pass, std::vector<RowsWanted> wanted);
  void CollectSurvivors();
  void EndPass();
  void ScoreSurvivors();
  void SelectSurvivors();
  // What the next scan is not for, is done.
  void ReleaseAnswered();
  void ScanCanonically();
  void TakeCanonical();
  void Finish();
  // Moves what was found to the callers of the members and tells done_.
  void HandOver(std::vector<size_t> members, bool last);
  // Runs lane(i) for each i in [0, LanesFor(work)), then the next step: on this thread if one lane is enough and it may
  // work, else as a job.
  void Run(int64_t work, std::function<void(int)> lane, void (SearchGroup::*then)());
  // item(i) for each i in [0, num_items) while anybody wants an answer, then the next step.
  void RunItems(size_t num_items, int64_t work, std::function<void(size_t)> item, void (SearchGroup::*then)());

  const EmbeddingTable& table_;
  const RowNorms& norms_;
  const RowCodes* const codes_;
  WorkerPool& pool_;
  const PollOthers poll_others_;
  const MembersDone done_;
  bool on_worker_;  // the present step may work on its thread

  std::vector<Member> members_;
  std::vector<uint8_t> is_released_;                  // of members_: 1 once handed over
  std::unique_ptr<std::atomic<bool>[]> has_stopped_;  // of members_
  std::atomic<size_t> num_wanted_;                    // members neither released nor stopped
  std::atomic<uint32_t> num_polls_{0};
  std::vector<Query> queries_;
  int64_t pass_queries_ = 0;  // that share the first pass
  int64_t blocks_scanned_ = 0;

  std::vector<size_t> waiting_queries_;                // those that the next pass is for
  std::vector<size_t> candidate_queries_;              // those in candidate_scan_
  std::vector<std::optional<CodeBound>> code_bounds_;  // of waiting_queries_, as the next
  std::vector<std::optional<CodeBound>> byte_bounds_;
  bool floats_come_next_ = false;  // after the present pass
  std::unique_ptr<CandidateScan> candidate_scan_;
  std::vector<uint8_t> gave_up_;  // of candidate_queries_: 1 where too many rows survived
  std::vector<Survivors> survivors_;
  std::vector<Piece> pieces_;
  std::unique_ptr<BlockCounter> counter_;
  std::vector<size_t> fallback_queries_;
  std::unique_ptr<CanonicalScan> canonical_scan_;
};

}  // namespace embedding
