// Keeps the best k of a stream of neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/search/neighbour.h"

namespace embedding {

// Order: IsCloser (neighbour.h), so the outcome does not depend on the order of arrival. Holds up to about 2k entries
// and cuts them to k when full, which costs less per entry than a heap once k is more than a few. Not thread-safe.
class TopK {
 public:
  // k >= 0.
  TopK(Metric metric, size_t k);

  // Whether the entry may still be among the best k. False for a NaN score once k entries came by.
  bool MayKeep(const Neighbour& entry) const { return !has_bound_ || IsCloser(metric_, entry, bound_); }

  // Adds an entry; the score must not be NaN, no id may come twice.
  void Add(const Neighbour& entry);

  // The best k of everything added, closest first; fewer if fewer were added. The object is empty afterwards.
  std::vector<Neighbour> TakeSorted();

  // Moves the entries of another one, of the same metric and k, into this one.
  void Merge(TopK other);

 private:
  void Cut();

  Metric metric_;
  size_t k_;
  size_t capacity_;
  bool has_bound_ = false;
  Neighbour bound_;  // the k-th best at the last cut
  std::vector<Neighbour> entries_;
};

}  // namespace embedding
