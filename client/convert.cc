#include "client/convert.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/vector_codec.h"

namespace embedding::client {
namespace {

using google::protobuf::Duration;

std::chrono::milliseconds Milliseconds(const Duration& duration) {
  return std::chrono::seconds(duration.seconds()) + std::chrono::milliseconds(duration.nanos() / 1'000'000);
}

void IdsToWire(const Ids& ids, Range range, v1::IdList& list) {
  list.mutable_values()->Assign(ids.values.begin() + static_cast<ptrdiff_t>(range.begin),
                                ids.values.begin() + static_cast<ptrdiff_t>(range.end));
  if (range.size() == ids.values.size()) list.mutable_shape()->Assign(ids.shape.begin(), ids.shape.end());
}

void KeysToWire(const Keys& keys, Range range, v1::KeyList& list) {
  list.mutable_values()->Reserve(static_cast<int>(range.size()));
  for (size_t i = range.begin; i < range.end; ++i) list.add_values(keys.values[i]);
  if (range.size() == keys.values.size()) list.mutable_shape()->Assign(keys.shape.begin(), keys.shape.end());
}

}  // namespace

v1::TableSpec ToWire(const TableRef& table) {
  v1::TableSpec spec;
  spec.set_name(table.name);
  spec.set_version(table.version);
  return spec;
}

v1::Dtype ToWire(Dtype dtype) { return static_cast<v1::Dtype>(dtype); }
v1::Metric ToWire(Metric metric) { return static_cast<v1::Metric>(metric); }
v1::Layout ToWire(Layout layout) { return static_cast<v1::Layout>(layout); }
v1::MissingPolicy ToWire(MissingPolicy policy) { return static_cast<v1::MissingPolicy>(policy); }
v1::Reduce ToWire(Reduce reduce) { return static_cast<v1::Reduce>(reduce); }

void RowsToWire(const Rows& rows, Range range, v1::RowSelector& out) {
  if (const Ids* ids = std::get_if<Ids>(&rows)) {
    IdsToWire(*ids, range, *out.mutable_ids());
  } else {
    KeysToWire(std::get<Keys>(rows), range, *out.mutable_keys());
  }
}

void VectorsToWire(const VectorSource& source, Range range, v1::VectorSet& out) {
  if (const Ids* ids = std::get_if<Ids>(&source)) {
    IdsToWire(*ids, range, *out.mutable_rows()->mutable_ids());
  } else if (const Keys* keys = std::get_if<Keys>(&source)) {
    KeysToWire(*keys, range, *out.mutable_rows()->mutable_keys());
  } else {
    const Vectors& vectors = std::get<Vectors>(source);
    const auto dim = static_cast<size_t>(vectors.dim);
    v1::Tensor& tensor = *out.mutable_vectors();
    tensor.set_dtype(v1::DTYPE_F32);
    tensor.add_shape(static_cast<int64_t>(range.size()));
    tensor.add_shape(vectors.dim);
    std::string& data = *tensor.mutable_data();
    data.resize(range.size() * dim * sizeof(float));
    FloatsToBytes(vectors.values.data() + range.begin * dim, range.size() * dim, data.data());
  }
}

void ExamplesToWire(std::span<const ExampleQuery> queries, v1::ExampleQueries& out) {
  for (const ExampleQuery& query : queries) {
    v1::ExampleQuery& wire = *out.add_queries();
    for (const VectorSource& set : query.positive) VectorsToWire(set, {0, CountOf(set)}, *wire.add_positive());
    for (const VectorSource& set : query.negative) VectorsToWire(set, {0, CountOf(set)}, *wire.add_negative());
    wire.mutable_positive_weights()->Assign(query.positive_weights.begin(), query.positive_weights.end());
    wire.mutable_negative_weights()->Assign(query.negative_weights.begin(), query.negative_weights.end());
  }
}

void FilterToWire(const Filter& filter, v1::Filter& out) {
  if (filter.allow) out.mutable_allow()->mutable_values()->Assign(filter.allow->begin(), filter.allow->end());
  out.mutable_deny()->mutable_values()->Assign(filter.deny.begin(), filter.deny.end());
  out.set_first_row(filter.first_row);
  out.set_end_row(filter.end_row);
}

void QueryToWire(const std::variant<Ids, Keys, KeyPrefix>& query, Range range, v1::ResolveKeysRequest& out) {
  if (const Ids* ids = std::get_if<Ids>(&query)) {
    IdsToWire(*ids, range, *out.mutable_ids());
  } else if (const Keys* keys = std::get_if<Keys>(&query)) {
    KeysToWire(*keys, range, *out.mutable_keys());
  } else {
    const KeyPrefix& prefix = std::get<KeyPrefix>(query);
    out.set_prefix(prefix.prefix);
    out.set_limit(prefix.limit);
  }
}

TableStamp FromWire(const v1::TableStamp& stamp) { return {stamp.name(), stamp.version(), stamp.fingerprint()}; }

Dtype FromWire(v1::Dtype dtype) {
  const auto known = static_cast<Dtype>(dtype);
  return DtypeSize(known) != 0 ? known : Dtype::kUnspecified;
}

Metric FromWire(v1::Metric metric) {
  switch (metric) {
    case v1::METRIC_COSINE:
      return Metric::kCosine;
    case v1::METRIC_DOT:
      return Metric::kDot;
    case v1::METRIC_EUCLIDEAN:
      return Metric::kEuclidean;
    default:
      return Metric::kTableDefault;
  }
}

TableInfo FromWire(const v1::TableInfo& info) {
  const auto since_epoch =
      std::chrono::seconds(info.loaded_at().seconds()) + std::chrono::microseconds(info.loaded_at().nanos() / 1000);
  std::vector<TableVersion> versions;
  for (const v1::TableVersion& known : info.versions()) {
    const bool is_known = known.state() >= v1::TABLE_STATE_LOADING && known.state() <= v1::TABLE_STATE_FAILED;
    versions.push_back({known.version(), is_known ? static_cast<TableState>(known.state()) : TableState::kUnspecified,
                        known.reason()});
  }
  std::optional<HnswInfo> hnsw;
  if (info.has_hnsw()) {
    hnsw = HnswInfo{info.hnsw().m(), info.hnsw().ef_construction(), info.hnsw().bytes(), info.hnsw().seconds(),
                    info.hnsw().from_file()};
  }
  return {
      .name = info.name(),
      .serving_version = info.serving_version(),
      .versions = std::move(versions),
      .rows = info.rows(),
      .dim = info.dim(),
      .parameters = info.parameters(),
      .dtype = FromWire(info.dtype()),
      .source_dtype = FromWire(info.source_dtype()),
      .bytes = info.bytes(),
      .code_bytes = info.code_bytes(),
      .metric = FromWire(info.metric()),
      .has_keys = info.has_keys(),
      .fingerprint = info.fingerprint(),
      .format = info.format(),
      .load_seconds = info.load_seconds(),
      .loaded_at = std::chrono::system_clock::time_point(since_epoch),
      .zero_rows = info.zero_rows(),
      .non_finite_rows = info.non_finite_rows(),
      .metadata = {info.metadata().begin(), info.metadata().end()},
      .index = info.index(),
      .hnsw = hnsw,
  };
}

ServerLimits FromWire(const v1::Limits& limits) {
  return {
      .max_ids = limits.max_ids(),
      .max_queries = limits.max_queries(),
      .max_k = limits.max_k(),
      .max_pairs = limits.max_pairs(),
      .max_filter_ids = limits.max_filter_ids(),
      .max_request_bytes = limits.max_request_bytes(),
      .max_response_bytes = limits.max_response_bytes(),
      .max_deadline = Milliseconds(limits.max_deadline()),
  };
}

ServerInfo FromWire(const v1::GetServerInfoResponse& info) {
  return {
      .version = info.version(),
      .revision = info.revision(),
      .simd_target = info.simd_target(),
      .uptime = Milliseconds(info.uptime()),
      .limits = FromWire(info.limits()),
  };
}

absl::Status CheckVectors(const VectorSource& source, absl::string_view side) {
  const Vectors* vectors = std::get_if<Vectors>(&source);
  if (vectors == nullptr) return absl::OkStatus();
  if (vectors->dim < 1 || vectors->values.size() % static_cast<size_t>(vectors->dim) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        side, " holds ", vectors->values.size(), " values, which is no whole number of vectors of dim ", vectors->dim));
  }
  return absl::OkStatus();
}

absl::Status CheckVectors(const std::vector<ExampleQuery>& examples) {
  for (size_t i = 0; i < examples.size(); ++i) {
    for (const bool is_positive : {true, false}) {
      const std::vector<VectorSource>& sets = is_positive ? examples[i].positive : examples[i].negative;
      for (size_t j = 0; j < sets.size(); ++j) {
        absl::Status status = CheckVectors(
            sets[j], absl::StrCat("examples[", i, "].", is_positive ? "positive" : "negative", "[", j, "]"));
        if (!status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const Rows& rows) {
  const std::vector<int64_t> shape = ShapeOf(rows);
  if (Product(shape) == static_cast<int64_t>(CountOf(rows))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("rows have the shape [", absl::StrJoin(shape, ", "),
                                                 "], but there are ", CountOf(rows), " of them"));
}

std::optional<int64_t> Product(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

std::vector<int64_t> ShapeOf(const Rows& rows) {
  std::vector<int64_t> shape = std::visit([](const auto& list) { return list.shape; }, rows);
  if (shape.empty()) shape.push_back(static_cast<int64_t>(CountOf(rows)));
  return shape;
}

}  // namespace embedding::client
