// Callers of one index whose queries share passes over the table.
#pragma once

#include <memory>

#include "server/search/search_group.h"

namespace embedding {

// Reading the table is most of what one query costs, so queries that wait while a pass runs go into the next one
// together, whoever asked them. None waits for company: where threads are idle, a group starts with what is there.
//
// Into one group go queries of one metric, of at most kGroupQueries: from every waiting caller its share first, then
// what is left in the order of arrival. A caller with more queries waits behind the others again. The longest waiting
// caller is always among those served, so nobody starves. Searches without a pass (few rows allowed, k near the number
// of rows), with a filter that spares more than half of the table, or of next to no work, go by themselves.
//
// Thread-safe.
class SharedPasses {
 public:
  // rows outlives every caller's end. share: false gives each caller its own passes, to compare with.
  SharedPasses(const SearchedRows& rows, bool share);
  // Every caller has ended.
  ~SharedPasses();

  // As NeighbourIndex::Start.
  void Start(NeighbourQuery query, WorkerPool& pool, StopPredicate stop, std::function<void(NeighbourResult)> done);

 private:
  class Queue;
  std::shared_ptr<Queue> queue_;
};

}  // namespace embedding
