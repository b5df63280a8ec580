// LookupRequest from the wire, by hand: ids go straight into one vector, keys and tensor bytes stay where they are.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/service/row_selection.h"

namespace embedding {

// A Pooling as it came. Lists keep their first elements and count all.
struct PoolingFields {
  int32_t mode = 0;              // number of the v1::PoolingMode
  std::vector<int64_t> offsets;  // the first `keep` + 1 ones: include_last_offset adds one to the number of bags
  int64_t num_offsets = 0;
  bool include_last_offset = false;
  std::vector<float> weights;  // the first `keep` ones
  int64_t num_weights = 0;
  std::optional<int64_t> padding_id;
};

// As it came, unchecked. Borrows from the bytes that it was parsed from.
struct LookupRequest {
  absl::string_view table_name;
  uint64_t table_version = 0;
  RowSelection rows;
  std::optional<PoolingFields> pooling;  // engaged: the request has one, be it empty
  int32_t missing = 0;                   // number of the v1::MissingPolicy
  bool normalize = false;
  int32_t dimensions = 0;
  int32_t output_dtype = 0;  // number of the v1::Dtype
  int32_t encoding = 0;      // number of the v1::Encoding
};

// Accepts what protobuf's parser accepts, with the same content: unknown fields and known ones of another wire type are
// stepped over, ids may be packed or not, the last scalar and the last member of a oneof win, sub-messages merge.
// keep: ids, keys, weights and bags that are kept at most; all are counted. INVALID_ARGUMENT (MALFORMED) otherwise.
absl::Status ParseLookupRequest(absl::string_view bytes, LookupRequest* request,
                                int64_t keep = std::numeric_limits<int64_t>::max());

// The same for a LookupStreamRequest. A message without a lookup gives an empty LookupRequest.
absl::Status ParseLookupStreamRequest(absl::string_view bytes, LookupRequest* request,
                                      int64_t keep = std::numeric_limits<int64_t>::max());

}  // namespace embedding
