#include "server/service/table_info.h"

#include <chrono>

#include "google/protobuf/util/time_util.h"
#include "server/service/metric_field.h"
#include "server/service/reply_writer.h"
#include "server/table/embedding_table.h"

namespace embedding {
namespace {

using google::protobuf::util::TimeUtil;

v1::TableState WireState(VersionState state) {
  switch (state) {
    case VersionState::kLoading:
      return v1::TABLE_STATE_LOADING;
    case VersionState::kAvailable:
      return v1::TABLE_STATE_AVAILABLE;
    case VersionState::kDraining:
      return v1::TABLE_STATE_DRAINING;
    case VersionState::kFailed:
      return v1::TABLE_STATE_FAILED;
  }
  return v1::TABLE_STATE_UNSPECIFIED;
}

}  // namespace

void FillTableInfo(const TableRecord& record, v1::TableInfo* info) {
  const Snapshot& snapshot = *record.snapshot;
  const EmbeddingTable& table = *snapshot.table;
  info->set_name(snapshot.name);
  info->set_serving_version(record.serving_version);
  for (const VersionInfo& known : record.versions) {
    v1::TableVersion* version = info->add_versions();
    version->set_version(known.version);
    version->set_state(WireState(known.state));
    version->set_reason(known.reason);
  }
  info->set_rows(table.num_rows());
  info->set_dim(table.dim());
  info->set_parameters(table.num_rows() * table.dim());
  info->set_dtype(WireDtype(table.dtype()));
  info->set_source_dtype(WireDtype(table.source_dtype()));
  info->set_bytes(table.size_bytes());
  info->set_code_bytes(snapshot.index == nullptr ? 0 : snapshot.index->code_bytes());
  info->set_metric(WireMetric(snapshot.default_metric));
  if (const GraphFacts* graph = snapshot.index == nullptr ? nullptr : snapshot.index->graph(); graph != nullptr) {
    info->set_index("hnsw");
    v1::HnswInfo* hnsw = info->mutable_hnsw();
    hnsw->set_m(graph->m);
    hnsw->set_ef_construction(graph->ef_construction);
    hnsw->set_bytes(graph->size_bytes);
    hnsw->set_seconds(graph->seconds);
    hnsw->set_from_file(graph->from_file);
  }
  info->set_has_keys(table.vocabulary() != nullptr);
  info->set_fingerprint(table.fingerprint());
  const absl::string_view format = TableFormatName(table.format());
  info->set_format(format.data(), format.size());
  info->set_load_seconds(table.load_seconds());
  const auto loaded_at = std::chrono::duration_cast<std::chrono::nanoseconds>(snapshot.loaded_at.time_since_epoch());
  *info->mutable_loaded_at() = TimeUtil::NanosecondsToTimestamp(loaded_at.count());
  info->set_zero_rows(table.zero_rows());
  info->set_non_finite_rows(static_cast<int64_t>(table.non_finite_rows().size()));
  info->mutable_metadata()->insert(table.metadata().begin(), table.metadata().end());
}

}  // namespace embedding
