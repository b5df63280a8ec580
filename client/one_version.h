// A call of several parts that must all see the same table.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/types.h"

namespace embedding::client {

// Sends part `index` to `table`, keeps its answer as the index-th (again, if it has one already) and gives its stamp.
using SendPart = absl::FunctionRef<absl::StatusOr<TableStamp>(size_t index, const TableRef& table)>;

// Sends parts 0..num_parts-1 in order, those after the first to the version that answered the first, and gives the
// stamp that all of them bear. If that version is gone (NOT_FOUND, VERSION_NOT_FOUND) or an answer bears another stamp,
// starts over with part 0; ABORTED after four starts. Any other error ends it. A version that the caller asked for is
// never exchanged for another: if it is gone, that error is the result.
absl::StatusOr<TableStamp> SendToOneVersion(const TableRef& table, size_t num_parts, SendPart send);

}  // namespace embedding::client
