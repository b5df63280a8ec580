// The hand-written parser against protobuf's own, on the same bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "embedding/v1/embedding.pb.h"
#include "server/service/lookup_request.h"

namespace embedding::testing {

// Of two Poolings, where both differ, or empty.
inline std::string PoolingDifference(const std::optional<PoolingFields>& ours, const v1::LookupRequest& request) {
  if (ours.has_value() != request.has_pooling()) return "pooling is set";
  if (!ours) return {};
  const v1::Pooling& theirs = request.pooling();
  if (ours->mode != theirs.mode()) return "pooling.mode";
  if (ours->include_last_offset != theirs.include_last_offset()) return "pooling.include_last_offset";
  if (ours->padding_id.has_value() != theirs.has_padding_id()) return "pooling.padding_id is set";
  if (ours->padding_id.value_or(0) != theirs.padding_id()) return "pooling.padding_id";
  if (ours->num_offsets != theirs.offsets_size()) return "count of pooling.offsets";
  if (ours->offsets != std::vector<int64_t>(theirs.offsets().begin(), theirs.offsets().end())) return "pooling.offsets";
  if (ours->num_weights != theirs.weights_size()) return "count of pooling.weights";
  // Bit by bit, as any bytes may come and NaN equals nothing.
  const auto same_bits = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
  const bool same_weights = std::equal(ours->weights.begin(), ours->weights.end(), theirs.weights().begin(),
                                       theirs.weights().end(), same_bits);
  return same_weights ? "" : "pooling.weights";
}

// Where both differ, or empty: whether they accept, and every field's content.
inline std::string DifferenceFromProtobuf(absl::string_view bytes) {
  v1::LookupRequest theirs;
  const bool accepted = theirs.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  LookupRequest ours;
  if (ParseLookupRequest(bytes, &ours).ok() != accepted) return accepted ? "only protobuf accepts" : "only we accept";
  if (!accepted) return {};
  if (ours.table_name != theirs.table().name()) return "table.name";
  if (ours.table_version != theirs.table().version()) return "table.version";
  if (std::string pooling = PoolingDifference(ours.pooling, theirs); !pooling.empty()) return pooling;
  if (ours.missing != theirs.missing()) return "missing";
  if (ours.normalize != theirs.normalize()) return "normalize";
  if (ours.dimensions != theirs.dimensions()) return "dimensions";
  if (ours.output_dtype != theirs.output_dtype()) return "output_dtype";
  if (ours.encoding != theirs.encoding()) return "encoding";
  const RowSelection& rows = ours.rows;
  const auto shape_differs = [&](const auto& shape) {
    const std::vector<int64_t> first(shape.begin(), shape.begin() + std::min<int>(shape.size(), kMaxRank + 1));
    return rows.rank != shape.size() || rows.shape != first;
  };
  switch (theirs.rows().rows_case()) {
    case v1::RowSelector::kIds: {
      if (rows.kind != RowSelection::Kind::kIds) return "rows is ids";
      const auto& values = theirs.rows().ids().values();
      if (rows.count != values.size()) return "count of ids";
      if (rows.ids != std::vector<int64_t>(values.begin(), values.end())) return "ids";
      return shape_differs(theirs.rows().ids().shape()) ? "ids.shape" : "";
    }
    case v1::RowSelector::kKeys: {
      if (rows.kind != RowSelection::Kind::kKeys) return "rows is keys";
      const auto& values = theirs.rows().keys().values();
      if (rows.count != values.size() || rows.keys.size() != static_cast<size_t>(values.size())) return "count of keys";
      for (int i = 0; i < values.size(); ++i) {
        if (rows.keys[static_cast<size_t>(i)] != values[i]) return "keys";
      }
      return shape_differs(theirs.rows().keys().shape()) ? "keys.shape" : "";
    }
    case v1::RowSelector::kIdTensor: {
      if (rows.kind != RowSelection::Kind::kIdTensor) return "rows is id_tensor";
      const v1::Tensor& tensor = theirs.rows().id_tensor();
      if (rows.dtype != tensor.dtype()) return "id_tensor.dtype";
      if (rows.data != tensor.data()) return "id_tensor.data";
      if (rows.num_values != tensor.values_size()) return "id_tensor.values";
      return shape_differs(tensor.shape()) ? "id_tensor.shape" : "";
    }
    case v1::RowSelector::ROWS_NOT_SET:
      return rows.kind == RowSelection::Kind::kUnset ? "" : "rows is unset";
  }
  return "unreachable";
}

}  // namespace embedding::testing
