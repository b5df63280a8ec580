#include "client/cli/json.h"

#include "client/convert.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"

namespace embedding::client {
namespace {

using google::protobuf::util::TimeUtil;

std::string Json(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for text that is no UTF-8, which the parser of the answer has refused already.
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) return "{}";
  while (!json.empty() && json.back() == '\n') json.pop_back();
  return json;
}

void StampToWire(const TableStamp& stamp, v1::TableStamp& out) {
  out.set_name(stamp.name);
  out.set_version(stamp.version);
  out.set_fingerprint(stamp.fingerprint);
}

void TensorToWire(const Tensor& tensor, v1::Tensor& out) {
  const std::vector<float> floats = tensor.ToFloats();
  out.set_dtype(v1::DTYPE_F32);
  out.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  out.mutable_values()->Assign(floats.begin(), floats.end());
}

void TableToWire(const TableInfo& table, v1::TableInfo& out) {
  out.set_name(table.name);
  out.set_serving_version(table.serving_version);
  for (const TableVersion& known : table.versions) {
    v1::TableVersion* version = out.add_versions();
    version->set_version(known.version);
    version->set_state(static_cast<v1::TableState>(known.state));
    version->set_reason(known.reason);
  }
  out.set_rows(table.rows);
  out.set_dim(table.dim);
  out.set_parameters(table.parameters);
  out.set_dtype(ToWire(table.dtype));
  out.set_source_dtype(ToWire(table.source_dtype));
  out.set_bytes(table.bytes);
  out.set_code_bytes(table.code_bytes);
  out.set_metric(ToWire(table.metric));
  out.set_has_keys(table.has_keys);
  out.set_index(table.index);
  if (table.hnsw.has_value()) {
    v1::HnswInfo& hnsw = *out.mutable_hnsw();
    hnsw.set_m(table.hnsw->m);
    hnsw.set_ef_construction(table.hnsw->ef_construction);
    hnsw.set_bytes(table.hnsw->bytes);
    hnsw.set_seconds(table.hnsw->seconds);
    hnsw.set_from_file(table.hnsw->from_file);
  }
  out.set_fingerprint(table.fingerprint);
  out.set_format(table.format);
  out.set_load_seconds(table.load_seconds);
  const auto microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(table.loaded_at.time_since_epoch()).count();
  *out.mutable_loaded_at() = TimeUtil::MicrosecondsToTimestamp(microseconds);
  out.set_zero_rows(table.zero_rows);
  out.set_non_finite_rows(table.non_finite_rows);
  out.mutable_metadata()->insert(table.metadata.begin(), table.metadata.end());
}

}  // namespace

std::string ToJson(const LookupResult& result) {
  v1::LookupResponse wire;
  StampToWire(result.table, *wire.mutable_table());
  TensorToWire(result.embeddings, *wire.mutable_embeddings());
  wire.mutable_missing_positions()->Assign(result.missing_positions.begin(), result.missing_positions.end());
  return Json(wire, /*pretty=*/false);
}

std::string ToJson(const SimilarityResult& result) {
  v1::SimilarityResponse wire;
  StampToWire(result.table, *wire.mutable_table());
  wire.mutable_scores()->set_dtype(v1::DTYPE_F32);
  wire.mutable_scores()->mutable_shape()->Assign(result.shape.begin(), result.shape.end());
  wire.mutable_scores()->mutable_values()->Assign(result.scores.begin(), result.scores.end());
  wire.set_metric(ToWire(result.metric));
  wire.set_higher_is_closer(result.higher_is_closer);
  wire.mutable_missing_left()->Assign(result.missing_left.begin(), result.missing_left.end());
  wire.mutable_missing_right()->Assign(result.missing_right.begin(), result.missing_right.end());
  return Json(wire, /*pretty=*/false);
}

std::string ToJson(const NearestNeighbourResult& result) {
  v1::NearestNeighbourResponse wire;
  StampToWire(result.table, *wire.mutable_table());
  for (const Neighbours& neighbours : result.results) {
    v1::Neighbours& out = *wire.add_results();
    out.mutable_ids()->Assign(neighbours.ids.begin(), neighbours.ids.end());
    out.mutable_scores()->Assign(neighbours.scores.begin(), neighbours.scores.end());
    out.mutable_keys()->Assign(neighbours.keys.begin(), neighbours.keys.end());
    if (!neighbours.vectors.shape.empty()) TensorToWire(neighbours.vectors, *out.mutable_vectors());
  }
  wire.set_metric(ToWire(result.metric));
  wire.set_higher_is_closer(result.higher_is_closer);
  wire.set_exact(result.exact);
  wire.mutable_missing_positions()->Assign(result.missing_positions.begin(), result.missing_positions.end());
  return Json(wire, /*pretty=*/false);
}

std::string ToJson(const ResolveKeysResult& result) {
  v1::ResolveKeysResponse wire;
  StampToWire(result.table, *wire.mutable_table());
  wire.mutable_ids()->Assign(result.ids.begin(), result.ids.end());
  wire.mutable_keys()->Assign(result.keys.begin(), result.keys.end());
  return Json(wire, /*pretty=*/false);
}

std::string ToJson(const ServerInfo& info, bool pretty) {
  v1::GetServerInfoResponse wire;
  wire.set_version(info.version);
  wire.set_revision(info.revision);
  wire.set_simd_target(info.simd_target);
  *wire.mutable_uptime() = TimeUtil::MillisecondsToDuration(info.uptime.count());
  v1::Limits& limits = *wire.mutable_limits();
  limits.set_max_ids(info.limits.max_ids);
  limits.set_max_queries(info.limits.max_queries);
  limits.set_max_k(info.limits.max_k);
  limits.set_max_pairs(info.limits.max_pairs);
  limits.set_max_filter_ids(info.limits.max_filter_ids);
  limits.set_max_request_bytes(info.limits.max_request_bytes);
  limits.set_max_response_bytes(info.limits.max_response_bytes);
  *limits.mutable_max_deadline() = TimeUtil::MillisecondsToDuration(info.limits.max_deadline.count());
  return Json(wire, pretty);
}

std::string ToJson(const TableInfo& table) {
  v1::TableInfo wire;
  TableToWire(table, wire);
  return Json(wire, /*pretty=*/false);
}

std::string ToJson(const std::vector<TableInfo>& tables) {
  v1::ListTablesResponse wire;
  for (const TableInfo& table : tables) TableToWire(table, *wire.add_tables());
  return Json(wire, /*pretty=*/true);
}

}  // namespace embedding::client
