// One search from its queries to their neighbours, as a chain of jobs on the pool.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/exec/worker_pool.h"
#include "server/search/candidate_scan.h"
#include "server/search/canonical_scan.h"
#include "server/search/neighbour_index.h"
#include "server/search/row_codes.h"
#include "server/search/row_filter.h"

namespace embedding {

// Queries go through the table in groups, so that a group's reservoirs stay small and other requests get their turn
// between two groups. A group is one pass of candidates over the rows' codes, where there are any; one over the rows in
// float32 for the queries whose candidates the codes could not tell apart; canonical scores for the survivors; and a
// canonical scan for queries that no pass has a bound for, or too many survivors. Where the filter leaves few rows,
// they are the survivors, without a pass.
class ExactSearch : public std::enable_shared_from_this<ExactSearch> {
 public:
  // What is searched. All of it, and the pool, live until done was called, which happens exactly once.
  struct Rows {
    const EmbeddingTable& table;
    const RowNorms& norms;
    const RowCodes* codes;  // null: none
  };

  static void Start(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                    std::function<void(NeighbourResult)> done);

  ExactSearch(const Rows& rows, NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
              std::function<void(NeighbourResult)> done);

 private:
  // Rows of one query that survived a candidate pass, and their scores.
  struct Survivors {
    size_t query = 0;  // absolute number
    std::vector<int64_t> ids;
    std::vector<float> scores;
  };
  struct Piece {
    size_t survivors;  // index
    size_t begin;
    size_t end;
  };

  // Ascending.
  std::span<const int64_t> ExcludedRows(size_t query) const;
  // The first step: makes filter and exclusions ready.
  void Begin();
  void NextGroup();
  void ListSurvivors();
  bool PassPays() const;
  // One pass for the queries of the group that wait for it; those without a bound wait for the next kind of pass.
  void ScanCodes();
  void ScanFloats();
  void StartPass(std::unique_ptr<const CandidatePass> pass, std::vector<CandidateScan::Query> queries);
  void CollectSurvivors();
  void EndPass();
  void ScoreSurvivors();
  void SelectSurvivors();
  void ScanCanonically();
  void TakeCanonical();
  void Finish();
  // Runs lane(i) for each i in [0, LanesFor(work)), then the next step: on this thread if one lane is enough and it may
  // work, else as a job.
  void Run(int64_t work, std::function<void(int)> lane, void (ExactSearch::*then)());

  const EmbeddingTable& table_;
  const RowNorms& norms_;
  const RowCodes* const codes_;
  NeighbourQuery query_;
  WorkerPool& pool_;
  StopPoll stop_;
  std::function<void(NeighbourResult)> done_;
  NeighbourResult result_;
  std::optional<EligibleRows> eligible_;
  int64_t k_ = 0;           // at most the number of eligible rows
  bool on_worker_ = false;  // the present step may work: it runs on a worker, or the whole search is tiny

  // The present group.
  size_t group_begin_ = 0;
  size_t group_end_ = 0;
  std::vector<CanonicalQuery> canonical_queries_;  // of the group
  std::vector<size_t> waiting_queries_;            // absolute numbers of those that the next pass is for
  std::vector<size_t> candidate_queries_;          // the same of the queries in candidate_scan_
  bool floats_come_next_ = false;                  // after the present pass
  std::unique_ptr<CandidateScan> candidate_scan_;
  std::vector<uint8_t> gave_up_;  // of candidate_queries_: 1 where too many rows survived
  std::vector<Survivors> survivors_;
  std::vector<Piece> pieces_;
  std::unique_ptr<BlockCounter> counter_;
  std::vector<size_t> fallback_queries_;  // absolute numbers
  std::unique_ptr<CanonicalScan> canonical_scan_;
};

}  // namespace embedding
