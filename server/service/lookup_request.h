// LookupRequest from the wire, by hand: ids go straight into one vector, keys and tensor bytes stay where they are.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/service/row_selection.h"

namespace embedding {

// As it came, unchecked. Borrows from the bytes that it was parsed from.
struct LookupRequest {
  absl::string_view table_name;
  uint64_t table_version = 0;
  RowSelection rows;
  int32_t output_dtype = 0;  // number of the v1::Dtype
  int32_t encoding = 0;      // number of the v1::Encoding
};

// Accepts what protobuf's parser accepts, with the same content: unknown fields and known ones of another wire type are
// stepped over, ids may be packed or not, the last scalar and the last member of a oneof win, sub-messages merge.
// keep: ids and keys that are kept at most; all are counted. INVALID_ARGUMENT (MALFORMED) otherwise.
absl::Status ParseLookupRequest(absl::string_view bytes, LookupRequest* request,
                                int64_t keep = std::numeric_limits<int64_t>::max());

}  // namespace embedding
