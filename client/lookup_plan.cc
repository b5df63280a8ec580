#include "client/lookup_plan.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/answers.h"
#include "client/convert.h"

namespace embedding::client {
namespace {

// Position of a missing row in an answer, at most: a tag is shared, 5 bytes hold 2^35.
constexpr int64_t kPositionBytes = 5;

// Where each bag begins, and the end of the last. Empty if the offsets make no bags: the server then says what is wrong
// with them.
std::vector<int64_t> BagsOf(const LookupRequest& request) {
  const Pooling& pooling = *request.pooling;
  const std::vector<int64_t> shape = ShapeOf(request.rows);
  const auto count = static_cast<int64_t>(CountOf(request.rows));
  std::vector<int64_t> begins;
  if (shape.size() == 2 && pooling.offsets.empty()) {
    for (int64_t b = 0; b <= shape[0]; ++b) begins.push_back(b * shape[1]);
  } else if (shape.size() == 1 && !pooling.offsets.empty()) {
    begins = pooling.offsets;
    if (!pooling.include_last_offset) begins.push_back(count);
    const bool covers = begins.front() == 0 && begins.back() == count;
    if (!covers || !std::is_sorted(begins.begin(), begins.end())) begins.clear();
  }
  if (!pooling.weights.empty() && static_cast<int64_t>(pooling.weights.size()) != count) begins.clear();
  return begins;
}

absl::Status Broken(const std::string& why) {
  return absl::InternalError(absl::StrCat("the server's answer breaks the contract: ", why));
}

}  // namespace

LookupPlan::LookupPlan(const LookupRequest& request) : request_(request) {
  parts_.push_back({{0, CountOf(request.rows)}, {}});
}

LookupPlan::LookupPlan(const LookupRequest& request, int64_t table_dim, Dtype table_dtype, const ServerLimits& limits)
    : request_(request) {
  const bool computed = request.pooling || request.normalize;
  const Dtype dtype = request.output_dtype != Dtype::kUnspecified ? request.output_dtype
                      : computed                                  ? Dtype::kF32
                                                                  : table_dtype;
  const int64_t columns = request.dimensions > 0 ? request.dimensions : table_dim;
  const int64_t vector_bytes = columns * static_cast<int64_t>(DtypeSize(dtype));
  const int64_t position_bytes = request.missing == MissingPolicy::kError ? 0 : kPositionBytes;
  if (!request.pooling) {
    for (const Range& rows : SplitLookup(request.rows, vector_bytes + position_bytes, limits))
      parts_.push_back({rows, {}});
    return;
  }
  begins_ = BagsOf(request);
  if (begins_.empty()) {
    parts_.push_back({{0, CountOf(request.rows)}, {}});
    return;
  }
  for (const Range& bags : SplitBags(request.rows, begins_, vector_bytes, position_bytes, limits)) {
    const Range rows{static_cast<size_t>(begins_[bags.begin]), static_cast<size_t>(begins_[bags.end])};
    parts_.push_back({rows, bags});
  }
}

void LookupPlan::ToWire(size_t part, v1::LookupRequest& wire) const {
  const auto& [rows, bags] = parts_[part];
  RowsToWire(request_.rows, rows, *wire.mutable_rows());
  wire.set_output_dtype(client::ToWire(request_.output_dtype));
  wire.set_missing(static_cast<v1::MissingPolicy>(request_.missing));
  wire.set_normalize(request_.normalize);
  wire.set_dimensions(request_.dimensions);
  if (!request_.pooling) return;
  const Pooling& pooling = *request_.pooling;
  v1::Pooling& out = *wire.mutable_pooling();
  out.set_mode(static_cast<v1::PoolingMode>(pooling.mode));
  if (pooling.padding_id) out.set_padding_id(*pooling.padding_id);
  if (parts_.size() == 1) {
    out.mutable_offsets()->Assign(pooling.offsets.begin(), pooling.offsets.end());
    out.set_include_last_offset(pooling.include_last_offset);
    out.mutable_weights()->Assign(pooling.weights.begin(), pooling.weights.end());
    return;
  }
  // A part of ids of two dimensions has one, and offsets.
  for (size_t b = bags.begin; b < bags.end; ++b) out.add_offsets(begins_[b] - begins_[bags.begin]);
  if (pooling.weights.empty()) return;
  out.mutable_weights()->Assign(pooling.weights.begin() + static_cast<ptrdiff_t>(rows.begin),
                                pooling.weights.begin() + static_cast<ptrdiff_t>(rows.end));
}

absl::Status LookupPlan::Take(size_t part, v1::LookupResponse& response, LookupResult& result) const {
  const auto& [rows, bags] = parts_[part];
  if (part == 0) result = LookupResult();
  const auto& missing = response.missing_positions();
  for (int i = 0; i < missing.size(); ++i) {
    if (missing[i] < (i == 0 ? 0 : missing[i - 1] + 1) || missing[i] >= static_cast<int64_t>(rows.size())) {
      return Broken(absl::StrCat("missing_positions[", i, "] is ", missing[i], " of ", rows.size(), " rows"));
    }
    result.missing_positions.push_back(missing[i] + static_cast<int64_t>(rows.begin));
  }
  size_t vectors = rows.size();
  if (skips()) vectors -= static_cast<size_t>(missing.size());
  if (request_.pooling) {
    // Where the plan knows no bags, the answer says how many there are.
    const v1::Tensor& tensor = response.embeddings();
    vectors = !begins_.empty() ? bags.size() : tensor.shape_size() == 2 ? static_cast<size_t>(tensor.shape(0)) : 0;
  }
  Tensor taken;
  if (absl::Status s = TakeTensor(*response.mutable_embeddings(), vectors, "embeddings", taken); !s.ok()) return s;
  if (part == 0) {
    result.embeddings = std::move(taken);
    return absl::OkStatus();
  }
  if (part == 1) result.embeddings.data.reserve(result.embeddings.data.size() * parts_.size());
  result.embeddings.data += taken.data;
  return absl::OkStatus();
}

absl::Status LookupPlan::Join(LookupResult& result) const {
  const int64_t dim = result.embeddings.shape.back();
  const auto skipped = static_cast<int64_t>(result.missing_positions.size());
  if (!request_.pooling) {
    result.embeddings.shape = ShapeOf(request_.rows);
    if (skips()) result.embeddings.shape = {static_cast<int64_t>(CountOf(request_.rows)) - skipped};
  } else if (!begins_.empty()) {
    result.embeddings.shape = {static_cast<int64_t>(begins_.size()) - 1};
  } else {
    result.embeddings.shape.pop_back();
  }
  result.embeddings.shape.push_back(dim);
  const auto bytes = static_cast<int64_t>(result.embeddings.data.size());
  if (Product(result.embeddings.shape) == bytes / static_cast<int64_t>(DtypeSize(result.embeddings.dtype))) {
    return absl::OkStatus();
  }
  return absl::InternalError("the parts of one version of the table differ in width or dtype");
}

}  // namespace embedding::client
