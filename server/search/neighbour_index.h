// Interface: queries [num_queries, dim] and k -> neighbours per query.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "server/exec/worker_pool.h"
#include "server/search/metric.h"
#include "server/search/neighbour.h"
#include "server/search/row_filter.h"
#include "server/search/score.h"
#include "server/search/similarity.h"

namespace embedding {

struct NeighbourQuery {
  Metric metric = Metric::kCosine;
  int64_t k = 10;                   // >= 1; may exceed the number of rows
  std::vector<VectorView> queries;  // [num_queries]; what they point to is finite and outlives the call
  // Empty, or [num_queries]: the rows that query i leaves out, in any order.
  std::vector<std::vector<int64_t>> excluded_rows = {};
  RowFilter filter = {};                          // its lists outlive the call
  std::optional<float> threshold = std::nullopt;  // finite: only rows at least this close (metric.h: Reaches)
  // Unset: exact neighbours. Else an approximate search may answer, which keeps so many (>= 1) candidates, or k if that
  // is more; an index that has no such search answers exactly.
  std::optional<int64_t> effort = std::nullopt;
};

// What a search did, for metrics.
struct SearchStats {
  int64_t rows_scanned = 0;      // approximate scores computed, eligible or not
  int64_t rows_rescored = 0;     // canonical scores computed
  int64_t blocks_scanned = 0;    // blocks between which the stop predicate was polled
  int64_t fallback_queries = 0;  // queries answered by the full canonical scan
  // [num_queries]: canonical scores computed for each query.
  std::vector<int64_t> survivors = {};
  // Queries, of any caller, that shared a pass over the table: for each pass, told to one of its callers alone.
  std::vector<int64_t> pass_queries = {};
  std::chrono::nanoseconds waited{0};  // from Start until a worker took the search up
};

struct NeighbourResult {
  WorkOutcome outcome = WorkOutcome::kComplete;
  bool exact = true;  // for certain, every query's
  // [num_queries], each closest first, equal scores by lower id, min(k, eligible rows) long: eligible is what the
  // filter, the query's exclusions and the threshold let through; an approximate search may find fewer of those that
  // reach a threshold. Result i belongs to query i.
  std::vector<std::vector<Neighbour>> neighbours;
  SearchStats stats;
};

// Of an index that has a graph for approximate searches.
struct GraphFacts {
  Metric metric = Metric::kCosine;  // the one that the graph is for: searches by others are exact
  int m = 0;
  int ef_construction = 0;
  int64_t size_bytes = 0;  // of the graph, and of the codes that it is walked by
  double seconds = 0;      // that building or reading it took
  bool from_file = false;
};

// Immutable once built, so all methods may be called concurrently.
class NeighbourIndex {
 public:
  virtual ~NeighbourIndex() = default;

  // Returns at once; calls done exactly once, on a worker thread or on this one. The index, and what the queries point
  // to, must live until then. stop is polled between blocks, from any
  // thread and several at a time, and may be asked once more after done was called: it owns what it reads.
  virtual void Start(NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
                     std::function<void(NeighbourResult)> done) const = 0;

  // Bytes of the rows' codes; 0 without codes.
  virtual int64_t code_bytes() const { return 0; }

  // Null without a graph: every search is exact.
  virtual const GraphFacts* graph() const { return nullptr; }
};

}  // namespace embedding
