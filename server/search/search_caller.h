// One caller's search, as the groups of queries that it is answered in see it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/exec/worker_pool.h"
#include "server/search/neighbour_index.h"
#include "server/search/row_filter.h"
#include "server/search/scan_blocks.h"

namespace embedding {

// Belongs to one thread at a time, but for what is const and the poll: to the one that prepares it, to the queue that
// it waits in, or to the group that some of its queries are in.
struct SearchCaller {
  SearchCaller(NeighbourQuery wanted, WorkerPool& workers, StopPredicate predicate,
               std::function<void(NeighbourResult)> when_done)
      : query(std::move(wanted)), pool(workers), stop(std::move(predicate)), done(std::move(when_done)) {
    result.neighbours.resize(query.queries.size());
    result.stats.survivors.resize(query.queries.size());
  }

  size_t num_left() const { return query.queries.size() - next_query; }

  // Tells the caller how it ended, once. What the query points to may be gone afterwards.
  void End() {
    if (!started.has_value()) started = std::chrono::steady_clock::now();
    result.stats.waited = *started - arrived;
    if (stop.stopped()) {
      result.outcome = WorkOutcome::kStopped;
      result.neighbours.assign(query.queries.size(), {});
    }
    std::exchange(done, {})(std::move(result));
  }

  NeighbourQuery query;
  WorkerPool& pool;
  StopPoll stop;
  std::function<void(NeighbourResult)> done;
  const std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> started;  // when its first group began
  std::optional<EligibleRows> eligible;
  int64_t k = 0;          // at most the number of eligible rows
  bool shares = false;    // its groups may hold queries of others
  size_t next_query = 0;  // the first that no group has answered yet
  NeighbourResult result;
};

}  // namespace embedding
