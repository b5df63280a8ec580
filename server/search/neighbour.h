// One neighbour and the total order of neighbours.
#pragma once

#include <cstdint>

#include "server/search/metric.h"

namespace embedding {

struct Neighbour {
  int64_t id = 0;
  float score = 0;  // canonical (score.h)
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

// Closest first, equal scores by lower id.
inline bool IsCloser(Metric metric, const Neighbour& a, const Neighbour& b) {
  if (a.score != b.score) return HigherIsCloser(metric) ? a.score > b.score : a.score < b.score;
  return a.id < b.id;
}

}  // namespace embedding
