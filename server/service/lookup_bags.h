// The bags of a pooled Lookup: which ids make up which vector.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/service/limits.h"
#include "server/service/lookup_request.h"
#include "server/service/row_selection.h"
#include "server/table/pool_rows.h"

namespace embedding {

struct Bags {
  PoolMode mode = PoolMode::kSum;
  // Bag b holds the ids at [begins[b], begins[b + 1]); one more entry than there are bags.
  std::vector<int64_t> begins;

  int64_t count() const { return static_cast<int64_t>(begins.size()) - 1; }
};

// Checks all of a Pooling that needs no table, against rows that CheckRows has passed, and fills bags. Ids of one
// dimension take offsets, ids [B, N] are B bags. At most limits.max_ids bags.
// INVALID_ARGUMENT (INVALID_FIELD, LIMIT_EXCEEDED); the first wrong offset or weight decides.
absl::Status CheckPooling(const PoolingFields& pooling, const RowSelection& rows, const RequestLimits& limits,
                          Bags* bags);

}  // namespace embedding
