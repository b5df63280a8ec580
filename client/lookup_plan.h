// A Lookup cut into parts that pass no limit of the server, and its answers joined again. Pooled requests are cut
// between bags only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/split.h"
#include "client/types.h"
#include "embedding/v1/embedding.pb.h"

namespace embedding::client {

// Borrows the request, which must outlive it.
class LookupPlan {
 public:
  // One part: the whole request, as for a stream, where nothing is cut.
  explicit LookupPlan(const LookupRequest& request);
  // table_dim and table_dtype: of the rows as stored.
  LookupPlan(const LookupRequest& request, int64_t table_dim, Dtype table_dtype, const ServerLimits& limits);

  size_t num_parts() const { return parts_.size(); }
  // Ids or keys of a part.
  Range rows_of(size_t part) const { return parts_[part].rows; }
  // Fills everything but the table.
  void ToWire(size_t part, v1::LookupRequest& wire) const;
  // Takes the answer to a part, parts in order; the first one begins the result anew. INTERNAL for an answer that
  // breaks the contract. Parts of two versions of a table may differ in width: what is joined then is to be dropped.
  absl::Status Take(size_t part, v1::LookupResponse& response, LookupResult& result) const;
  // The shape of the whole, once all parts of one version are taken. INTERNAL if they differ in width or dtype.
  absl::Status Join(LookupResult& result) const;

 private:
  struct Part {
    Range rows;
    Range bags;  // of a pooled request
  };

  bool skips() const { return !request_.pooling && request_.missing == MissingPolicy::kSkip; }

  const LookupRequest& request_;
  std::vector<int64_t> begins_;  // bag b: rows [begins_[b], begins_[b + 1]); empty if not pooled, or not to be cut
  std::vector<Part> parts_;
};

}  // namespace embedding::client
