#include "server/service/metrics.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "server/exec/mutex.h"
#include "server/service/metric_cells.h"
#include "server/service/metric_families.h"
#include "server/service/process_metrics.h"
#include "server/table/table_memory.h"

namespace embedding {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

struct RpcName {
  const char* service;
  const char* method;
};

constexpr RpcName kRpcNames[kNumRpcs] = {
    {"embedding.v1.EmbeddingService", "Lookup"},
    {"embedding.v1.EmbeddingService", "Similarity"},
    {"embedding.v1.EmbeddingService", "NearestNeighbour"},
    {"embedding.v1.EmbeddingService", "LookupStream"},
    {"embedding.v1.TableService", "GetServerInfo"},
    {"embedding.v1.TableService", "ListTables"},
    {"embedding.v1.TableService", "GetTable"},
    {"embedding.v1.TableService", "ResolveKeys"},
    {"embedding.v1.TableAdminService", "LoadTable"},
    {"embedding.v1.TableAdminService", "UnloadTable"},
    {"embedding.v1.TableAdminService", "SetServingVersion"},
};

constexpr int kNumStages = 4;
constexpr const char* kStageNames[kNumStages] = {"queue", "decode", "compute", "encode"};

// As Go spells grpc::StatusCode, which is how dashboards and alerts query them.
constexpr int kNumCodes = 17;
constexpr int kUnknownCode = 2;
constexpr const char* kCodeNames[kNumCodes] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

constexpr int kNumLevels = 6;
constexpr const char* kLevelNames[kNumLevels] = {"trace", "debug", "info", "warning", "error", "critical"};

// All counts of one shard. Aligned and padded, so that shards share no cache line.
struct alignas(64) Shard {
  std::array<Cell, kNumRpcs> started;
  std::array<Cell, kNumRpcs> ended;  // what in-flight subtracts
  std::array<std::array<Cell, kNumCodes>, kNumRpcs> handled;
  std::array<HistogramCells<kLatencyBoundsNs>, kNumRpcs> handling;
  std::array<Cell, kNumRpcs> expired;
  std::array<Cell, kNumCodes> stream_items;
  std::array<Cell, kNumDataRpcs> hits;
  std::array<Cell, kNumDataRpcs> misses;
  std::array<HistogramCells<kBatchBounds>, kNumDataRpcs> batch_rows;
  std::array<HistogramCells<kBytesBounds>, kNumDataRpcs> response_bytes;
  std::array<std::array<HistogramCells<kStageBoundsNs>, kNumStages>, kNumDataRpcs> stages;
  Cell rows_scanned, rows_rescored, fallback_queries;
  HistogramCells<kSurvivorBounds> survivors;
  HistogramCells<kPassQueriesBounds> pass_queries;
  std::array<Cell, kNumLevels> log_messages;
  Cell log_dropped;
};

// Threads that share a shard still count right, only slower; more shards than CPUs would only cost memory (10 KB each).
size_t ChooseNumShards() {
  const size_t cpus = std::max(1u, std::thread::hardware_concurrency());
  return std::bit_ceil(std::min<size_t>(cpus, 64));
}

bool IsDataRpc(Rpc rpc) { return static_cast<int>(rpc) < kNumDataRpcs; }

// What is shown of a table: its serving version, and its reloads so far.
struct TableSeries {
  TableMetrics serving;
  int64_t reloads_ok = 0;
  int64_t reloads_failed = 0;
  bool last_successful = true;
  double last_success = 0;  // Unix time
};

MetricFamily NewFamily(Family family) {
  const FamilyInfo& info = InfoOf(family);
  return {info.name, info.help, info.type, {}};
}

// values: in the order of the family's label names.
ClientMetric NewSample(Family family, const std::vector<std::string>& values) {
  ClientMetric sample;
  std::string names = InfoOf(family).labels;
  size_t begin = 0;
  for (const std::string& value : values) {
    const size_t end = std::min(names.find(',', begin), names.size());
    sample.label.push_back({names.substr(begin, end - begin), value});
    begin = end + 1;
  }
  return sample;
}

void AddValue(MetricFamily& family, ClientMetric sample, double value) {
  if (family.type == prometheus::MetricType::Counter) {
    sample.counter.value = value;
  } else {
    sample.gauge.value = value;
  }
  family.metric.push_back(std::move(sample));
}

MetricFamily SingleValue(Family family, double value) {
  MetricFamily out = NewFamily(family);
  AddValue(out, ClientMetric(), value);
  return out;
}

// nanoseconds: counted so, exported in seconds.
template <size_t kNumBounds>
void AddHistogram(MetricFamily& family, ClientMetric sample, const std::array<int64_t, kNumBounds>& bounds,
                  const HistogramSnapshot<kNumBounds>& snapshot, bool nanoseconds) {
  // Dividing gives the double nearest to the decimal fraction, so that le reads 0.0001; multiplying by 1e-9 does not.
  const auto scaled = [nanoseconds](int64_t v) {
    return nanoseconds ? static_cast<double>(v) / 1e9 : static_cast<double>(v);
  };
  uint64_t cumulative = 0;
  for (size_t i = 0; i < kNumBounds; ++i) {
    cumulative += static_cast<uint64_t>(snapshot.counts[i]);
    sample.histogram.bucket.push_back({cumulative, scaled(bounds[i])});
  }
  // The serializer adds the +Inf bucket from the count. Counted from the buckets, the two never disagree.
  cumulative += static_cast<uint64_t>(snapshot.counts[kNumBounds]);
  sample.histogram.sample_count = cumulative;
  sample.histogram.sample_sum = scaled(snapshot.sum);
  family.metric.push_back(std::move(sample));
}

std::vector<std::string> RpcLabels(int rpc) {
  const bool is_stream = rpc == static_cast<int>(Rpc::kLookupStream);
  return {is_stream ? "bidi_stream" : "unary", kRpcNames[rpc].service, kRpcNames[rpc].method};
}

}  // namespace

absl::string_view RpcServiceName(Rpc rpc) { return kRpcNames[static_cast<int>(rpc)].service; }
absl::string_view RpcMethodName(Rpc rpc) { return kRpcNames[static_cast<int>(rpc)].method; }

struct Metrics::Impl {
  explicit Impl(BuildInfo build_info) : build(std::move(build_info)), shards(ChooseNumShards()) {}

  Shard& MyShard() { return shards[ThreadShardIndex() & (shards.size() - 1)]; }

  // cell: a function from a shard to one of its cells.
  template <typename CellOf>
  int64_t Sum(CellOf cell, std::memory_order order = std::memory_order_relaxed) const {
    int64_t sum = 0;
    for (const Shard& shard : shards) sum += cell(shard).Get(order);
    return sum;
  }
  // histogram: a function from a shard to one of its histograms.
  template <size_t kNumBounds, typename HistogramOf>
  HistogramSnapshot<kNumBounds> SumHistogram(HistogramOf histogram) const {
    HistogramSnapshot<kNumBounds> snapshot;
    for (const Shard& shard : shards) histogram(shard).AddTo(snapshot);
    return snapshot;
  }

  void CollectCalls(std::vector<MetricFamily>& out) const;
  void CollectRows(std::vector<MetricFamily>& out) const;
  void CollectTables(std::vector<MetricFamily>& out) const;
  void CollectProcess(std::vector<MetricFamily>& out) const;

  const BuildInfo build;
  std::vector<Shard> shards;  // a power of two of them
  mutable Mutex mutex;
  std::map<std::string, TableSeries> tables ABSL_GUARDED_BY(mutex);
};

Metrics::Metrics(BuildInfo build) : impl_(std::make_unique<Impl>(std::move(build))) {}
Metrics::~Metrics() = default;

void Metrics::OnStarted(Rpc rpc) { impl_->MyShard().started[static_cast<size_t>(rpc)].Add(1); }

void Metrics::OnHandled(Rpc rpc, int code, std::chrono::nanoseconds elapsed) {
  Shard& shard = impl_->MyShard();
  const auto r = static_cast<size_t>(rpc);
  shard.handled[r][static_cast<size_t>(code < 0 || code >= kNumCodes ? kUnknownCode : code)].Add(1);
  shard.handling[r].Observe(std::max<int64_t>(0, elapsed.count()));
  // Release, with the acquire of the readers: who sees a call's end sees its start too, so none is in flight less than
  // once.
  shard.ended[r].Add(1, std::memory_order_release);
}

void Metrics::OnResponseBytes(Rpc rpc, int64_t bytes) {
  if (!IsDataRpc(rpc)) return;
  impl_->MyShard().response_bytes[static_cast<size_t>(rpc)].Observe(std::max<int64_t>(0, bytes));
}

void Metrics::OnRows(Rpc rpc, int64_t hits, int64_t misses) {
  if (!IsDataRpc(rpc)) return;
  Shard& shard = impl_->MyShard();
  shard.hits[static_cast<size_t>(rpc)].Add(hits);
  shard.misses[static_cast<size_t>(rpc)].Add(misses);
  shard.batch_rows[static_cast<size_t>(rpc)].Observe(hits + misses);
}

void Metrics::OnStage(Rpc rpc, Stage stage, std::chrono::nanoseconds elapsed) {
  if (!IsDataRpc(rpc)) return;
  impl_->MyShard().stages[static_cast<size_t>(rpc)][static_cast<size_t>(stage)].Observe(
      std::max<int64_t>(0, elapsed.count()));
}

void Metrics::OnStreamItem(int code) {
  impl_->MyShard().stream_items[static_cast<size_t>(code < 0 || code >= kNumCodes ? kUnknownCode : code)].Add(1);
}

void Metrics::OnExpiredBeforeRun(Rpc rpc) { impl_->MyShard().expired[static_cast<size_t>(rpc)].Add(1); }

void Metrics::OnSearch(int64_t rows_scanned, int64_t rows_rescored, int64_t fallback_queries) {
  Shard& shard = impl_->MyShard();
  shard.rows_scanned.Add(rows_scanned);
  shard.rows_rescored.Add(rows_rescored);
  shard.fallback_queries.Add(fallback_queries);
}

void Metrics::OnSurvivors(int64_t rows) { impl_->MyShard().survivors.Observe(std::max<int64_t>(0, rows)); }

void Metrics::OnPass(int64_t queries) { impl_->MyShard().pass_queries.Observe(std::max<int64_t>(0, queries)); }

void Metrics::OnLogMessage(absl::string_view level) {
  const auto* found = std::find(std::begin(kLevelNames), std::end(kLevelNames), level);
  if (found == std::end(kLevelNames)) return;
  impl_->MyShard().log_messages[static_cast<size_t>(found - std::begin(kLevelNames))].Add(1);
}

void Metrics::OnLogDropped(int64_t lines) { impl_->MyShard().log_dropped.Add(lines); }

void Metrics::SetTable(const TableMetrics& table) {
  MutexLock lock(&impl_->mutex);
  const auto [it, is_new] = impl_->tables.try_emplace(table.name);
  it->second.serving = table;
  if (is_new) it->second.last_success = table.loaded_timestamp_seconds;
}

void Metrics::OnReload(const std::string& table, bool ok, double timestamp_seconds) {
  MutexLock lock(&impl_->mutex);
  const auto it = impl_->tables.find(table);
  if (it == impl_->tables.end()) return;
  ++(ok ? it->second.reloads_ok : it->second.reloads_failed);
  it->second.last_successful = ok;
  if (ok) it->second.last_success = timestamp_seconds;
}

void Metrics::RemoveTable(const std::string& table) {
  MutexLock lock(&impl_->mutex);
  impl_->tables.erase(table);
}

int64_t Metrics::calls_started() const {
  int64_t sum = 0;
  for (size_t r = 0; r < kNumRpcs; ++r) sum += impl_->Sum([r](const Shard& s) -> const Cell& { return s.started[r]; });
  return sum;
}

int64_t Metrics::calls_handled() const {
  int64_t sum = 0;
  for (size_t r = 0; r < kNumRpcs; ++r) {
    sum += impl_->Sum([r](const Shard& s) -> const Cell& { return s.ended[r]; }, std::memory_order_acquire);
  }
  return sum;
}

void Metrics::Impl::CollectCalls(std::vector<MetricFamily>& out) const {
  MetricFamily started = NewFamily(Family::kStarted);
  MetricFamily handled = NewFamily(Family::kHandled);
  MetricFamily handling = NewFamily(Family::kHandlingSeconds);
  MetricFamily in_flight = NewFamily(Family::kInFlight);
  MetricFamily expired = NewFamily(Family::kExpiredBeforeRun);
  for (int rpc = 0; rpc < kNumRpcs; ++rpc) {
    const auto r = static_cast<size_t>(rpc);
    const int64_t ended_now = Sum([r](const Shard& s) -> const Cell& { return s.ended[r]; }, std::memory_order_acquire);
    const int64_t started_now = Sum([r](const Shard& s) -> const Cell& { return s.started[r]; });
    AddValue(started, NewSample(Family::kStarted, RpcLabels(rpc)), static_cast<double>(started_now));
    AddValue(in_flight, NewSample(Family::kInFlight, {kRpcNames[rpc].method}),
             static_cast<double>(started_now - ended_now));
    for (size_t code = 0; code < kNumCodes; ++code) {
      std::vector<std::string> labels = RpcLabels(rpc);
      labels.push_back(kCodeNames[code]);
      AddValue(handled, NewSample(Family::kHandled, labels),
               static_cast<double>(Sum([r, code](const Shard& s) -> const Cell& { return s.handled[r][code]; })));
    }
    AddHistogram(handling, NewSample(Family::kHandlingSeconds, RpcLabels(rpc)), kLatencyBoundsNs,
                 SumHistogram<kLatencyBoundsNs.size()>([r](const Shard& s) -> const auto& { return s.handling[r]; }),
                 /*nanoseconds=*/true);
    AddValue(expired, NewSample(Family::kExpiredBeforeRun, {kRpcNames[rpc].method}),
             static_cast<double>(Sum([r](const Shard& s) -> const Cell& { return s.expired[r]; })));
  }
  MetricFamily items = NewFamily(Family::kStreamItems);
  for (size_t code = 0; code < kNumCodes; ++code) {
    AddValue(items, NewSample(Family::kStreamItems, {std::string(RpcMethodName(Rpc::kLookupStream)), kCodeNames[code]}),
             static_cast<double>(Sum([code](const Shard& s) -> const Cell& { return s.stream_items[code]; })));
  }
  for (MetricFamily* family : {&started, &handled, &handling, &in_flight, &expired, &items})
    out.push_back(std::move(*family));
}

void Metrics::Impl::CollectRows(std::vector<MetricFamily>& out) const {
  MetricFamily rows = NewFamily(Family::kRows);
  MetricFamily batch = NewFamily(Family::kBatchRows);
  MetricFamily bytes = NewFamily(Family::kResponseBytes);
  MetricFamily stages = NewFamily(Family::kStageSeconds);
  for (size_t r = 0; r < kNumDataRpcs; ++r) {
    const std::string method = kRpcNames[r].method;
    AddValue(rows, NewSample(Family::kRows, {method, "hit"}),
             static_cast<double>(Sum([r](const Shard& s) -> const Cell& { return s.hits[r]; })));
    AddValue(rows, NewSample(Family::kRows, {method, "miss"}),
             static_cast<double>(Sum([r](const Shard& s) -> const Cell& { return s.misses[r]; })));
    AddHistogram(batch, NewSample(Family::kBatchRows, {method}), kBatchBounds,
                 SumHistogram<kBatchBounds.size()>([r](const Shard& s) -> const auto& { return s.batch_rows[r]; }),
                 /*nanoseconds=*/false);
    AddHistogram(bytes, NewSample(Family::kResponseBytes, {method}), kBytesBounds,
                 SumHistogram<kBytesBounds.size()>([r](const Shard& s) -> const auto& { return s.response_bytes[r]; }),
                 /*nanoseconds=*/false);
    for (size_t stage = 0; stage < kNumStages; ++stage) {
      AddHistogram(stages, NewSample(Family::kStageSeconds, {method, kStageNames[stage]}), kStageBoundsNs,
                   SumHistogram<kStageBoundsNs.size()>(
                       [ r, stage ](const Shard& s) -> const auto& { return s.stages[r][stage]; }),
                   /*nanoseconds=*/true);
    }
  }
  for (MetricFamily* family : {&rows, &batch, &bytes, &stages}) out.push_back(std::move(*family));
  const auto single = [&](Family family, Cell Shard::*cell) {
    out.push_back(
        SingleValue(family, static_cast<double>(Sum([cell](const Shard& s) -> const Cell& { return s.*cell; }))));
  };
  single(Family::kNnRowsScanned, &Shard::rows_scanned);
  single(Family::kNnRowsRescored, &Shard::rows_rescored);
  single(Family::kNnFallbackQueries, &Shard::fallback_queries);
  MetricFamily survivors = NewFamily(Family::kNnSurvivors);
  AddHistogram(survivors, ClientMetric(), kSurvivorBounds,
               SumHistogram<kSurvivorBounds.size()>([](const Shard& s) -> const auto& { return s.survivors; }),
               /*nanoseconds=*/false);
  MetricFamily pass_queries = NewFamily(Family::kNnPassQueries);
  AddHistogram(pass_queries, ClientMetric(), kPassQueriesBounds,
               SumHistogram<kPassQueriesBounds.size()>([](const Shard& s) -> const auto& { return s.pass_queries; }),
               /*nanoseconds=*/false);
  out.push_back(std::move(survivors));
  out.push_back(std::move(pass_queries));
}

void Metrics::Impl::CollectTables(std::vector<MetricFamily>& out) const {
  MetricFamily rows = NewFamily(Family::kTableRows);
  MetricFamily dimensions = NewFamily(Family::kTableDimensions);
  MetricFamily size = NewFamily(Family::kTableSizeBytes);
  MetricFamily index_size = NewFamily(Family::kTableIndexSizeBytes);
  MetricFamily load = NewFamily(Family::kTableLoadSeconds);
  MetricFamily loaded = NewFamily(Family::kTableLoadedTimestamp);
  MetricFamily info = NewFamily(Family::kTableInfo);
  MetricFamily reloads = NewFamily(Family::kTableReloads);
  MetricFamily last_successful = NewFamily(Family::kTableLastReloadSuccessful);
  MetricFamily last_success = NewFamily(Family::kTableLastReloadSuccess);
  {
    MutexLock lock(&mutex);
    for (const auto& [name, series] : tables) {
      const TableMetrics& table = series.serving;
      AddValue(rows, NewSample(Family::kTableRows, {name}), static_cast<double>(table.rows));
      AddValue(dimensions, NewSample(Family::kTableDimensions, {name}), static_cast<double>(table.dim));
      AddValue(size, NewSample(Family::kTableSizeBytes, {name}), static_cast<double>(table.size_bytes));
      AddValue(index_size, NewSample(Family::kTableIndexSizeBytes, {name}),
               static_cast<double>(table.index_size_bytes));
      AddValue(load, NewSample(Family::kTableLoadSeconds, {name}), table.load_seconds);
      AddValue(loaded, NewSample(Family::kTableLoadedTimestamp, {name}), table.loaded_timestamp_seconds);
      AddValue(info,
               NewSample(Family::kTableInfo,
                         {name, std::to_string(table.version), table.dtype, table.format, table.fingerprint}),
               1);
      AddValue(reloads, NewSample(Family::kTableReloads, {name, "ok"}), static_cast<double>(series.reloads_ok));
      AddValue(reloads, NewSample(Family::kTableReloads, {name, "failed"}), static_cast<double>(series.reloads_failed));
      AddValue(last_successful, NewSample(Family::kTableLastReloadSuccessful, {name}), series.last_successful ? 1 : 0);
      AddValue(last_success, NewSample(Family::kTableLastReloadSuccess, {name}), series.last_success);
    }
  }
  for (MetricFamily* family :
       {&rows, &dimensions, &size, &index_size, &load, &loaded, &info, &reloads, &last_successful, &last_success}) {
    out.push_back(std::move(*family));
  }
  out.push_back(SingleValue(Family::kTablesMemoryBytes, static_cast<double>(TableMemoryUsed())));
  out.push_back(SingleValue(Family::kTablesMemoryLimit, static_cast<double>(TableMemoryLimit())));
}

void Metrics::Impl::CollectProcess(std::vector<MetricFamily>& out) const {
  MetricFamily build_info = NewFamily(Family::kBuildInfo);
  AddValue(build_info, NewSample(Family::kBuildInfo, {build.version, build.revision, build.compiler, build.simd}), 1);
  out.push_back(std::move(build_info));

  MetricFamily messages = NewFamily(Family::kLogMessages);
  for (size_t level = 0; level < kNumLevels; ++level) {
    AddValue(messages, NewSample(Family::kLogMessages, {kLevelNames[level]}),
             static_cast<double>(Sum([level](const Shard& s) -> const Cell& { return s.log_messages[level]; })));
  }
  out.push_back(std::move(messages));
  out.push_back(SingleValue(Family::kLogMessagesDropped,
                            static_cast<double>(Sum([](const Shard& s) -> const Cell& { return s.log_dropped; }))));

  const ProcessUsage usage = ReadProcessUsage();
  const std::pair<Family, std::optional<double>> values[] = {
      {Family::kProcessCpuSeconds, usage.cpu_seconds},
      {Family::kProcessResidentBytes, usage.resident_bytes},
      {Family::kProcessVirtualBytes, usage.virtual_bytes},
      {Family::kProcessOpenFds, usage.open_fds},
      {Family::kProcessMaxFds, usage.max_fds},
      {Family::kProcessStartTime, usage.start_time_seconds},
      {Family::kProcessThreads, usage.threads},
  };
  for (const auto& [family, value] : values) {
    if (value.has_value()) out.push_back(SingleValue(family, *value));
  }
}

std::vector<MetricFamily> Metrics::Collect() const {
  std::vector<MetricFamily> out;
  out.reserve(kNumFamilies);
  impl_->CollectCalls(out);
  impl_->CollectRows(out);
  impl_->CollectTables(out);
  impl_->CollectProcess(out);
  return out;
}

}  // namespace embedding
