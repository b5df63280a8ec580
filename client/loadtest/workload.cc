#include "client/loadtest/workload.h"

#include <span>
#include <utility>

namespace embedding::loadtest {
namespace {

std::string MethodOf(Rpc rpc) {
  switch (rpc) {
    case Rpc::kLookup:
      return "/embedding.v1.EmbeddingService/Lookup";
    case Rpc::kSimilarity:
      return "/embedding.v1.EmbeddingService/Similarity";
    case Rpc::kNeighbours:
      return "/embedding.v1.EmbeddingService/NearestNeighbour";
  }
  return "";
}

void SetIds(std::span<const int64_t> ids, v1::RowSelector* rows) {
  auto* values = rows->mutable_ids()->mutable_values();
  values->Clear();
  values->Add(ids.begin(), ids.end());
}

}  // namespace

Workload::Workload(WorkloadOptions options, const v1::TableInfo& table)
    : options_(std::move(options)),
      table_(table),
      ids_(options_.ids, table.rows(), options_.seed),
      method_(MethodOf(options_.rpc)) {}

v1::Metric Workload::metric() const {
  return options_.metric == v1::METRIC_UNSPECIFIED ? table_.metric() : options_.metric;
}

void Workload::IdsOf(uint64_t call, std::vector<int64_t>* ids) const {
  const int64_t count = options_.rpc == Rpc::kSimilarity ? 2 * options_.batch_size : options_.batch_size;
  ids->resize(static_cast<size_t>(count));
  ids_.Fill(call, *ids);
}

RequestWriter::RequestWriter(const Workload& workload) : workload_(workload) {
  const WorkloadOptions& options = workload.options();
  lookup_.mutable_table()->set_name(options.table);
  similarity_.mutable_table()->set_name(options.table);
  similarity_.set_metric(options.metric);
  similarity_.set_layout(v1::LAYOUT_PAIRWISE);
  neighbours_.mutable_table()->set_name(options.table);
  neighbours_.set_metric(options.metric);
  neighbours_.set_k(options.k);
  if (options.approximate) neighbours_.set_mode(v1::SEARCH_MODE_APPROXIMATE);
  neighbours_.set_effort(options.effort);
}

size_t RequestWriter::Prepare(uint64_t call) {
  workload_.IdsOf(call, &ids_);
  const std::span<const int64_t> ids(ids_);
  switch (workload_.options().rpc) {
    case Rpc::kLookup:
      SetIds(ids, lookup_.mutable_rows());
      return lookup_.ByteSizeLong();
    case Rpc::kSimilarity:
      SetIds(ids.first(ids.size() / 2), similarity_.mutable_left()->mutable_rows());
      SetIds(ids.last(ids.size() / 2), similarity_.mutable_right()->mutable_rows());
      return similarity_.ByteSizeLong();
    case Rpc::kNeighbours:
      SetIds(ids, neighbours_.mutable_targets()->mutable_rows());
      return neighbours_.ByteSizeLong();
  }
  return 0;
}

void RequestWriter::Write(uint8_t* out) const {
  switch (workload_.options().rpc) {
    case Rpc::kLookup:
      lookup_.SerializeWithCachedSizesToArray(out);
      break;
    case Rpc::kSimilarity:
      similarity_.SerializeWithCachedSizesToArray(out);
      break;
    case Rpc::kNeighbours:
      neighbours_.SerializeWithCachedSizesToArray(out);
      break;
  }
}

}  // namespace embedding::loadtest
