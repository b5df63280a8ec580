// Which rows a NearestNeighbour may find, from the wire.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/neighbour_index.h"
#include "server/service/field_counts.h"
#include "server/service/limits.h"

namespace embedding {

// Checks filter and score_threshold, neither of which needs the table, and sets them in the query. The lists of the
// query borrow from the request. INVALID_ARGUMENT (INVALID_FIELD, LIMIT_EXCEEDED), with the field's path.
absl::Status TakeFilter(const v1::NearestNeighbourRequest& request, const RequestLimits& limits, NeighbourQuery* query);

// The limit on ids of the lists and their number of dimensions, before protobuf parses the request. As TakeFilter.
absl::Status CheckFilterCounts(const FieldCounts& counts, const RequestLimits& limits);

// Bytes that the filter takes while its search runs: its decoded lists and, where there are any, a bit for each row of
// the table.
int64_t FilterBytes(const RowFilter& filter, int64_t num_rows);

// No more rows than these pass the filter, in a table of num_rows.
int64_t MostEligible(const RowFilter& filter, int64_t num_rows);

}  // namespace embedding
