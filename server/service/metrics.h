// What the server counts, in sharded atomics: no lock is taken on a request's way. The families are listed in
// metric_families.h. Every series exists from the start, as zeros, but those of tables: about 940 of them, and 10 for
// every table.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace embedding {

// The rpcs that are counted, in the order of kRpcNames.
enum class Rpc : uint8_t {
  kLookup,
  kSimilarity,
  kNearestNeighbour,
  kLookupStream,
  kGetServerInfo,
  kListTables,
  kGetTable,
  kResolveKeys,
  kLoadTable,
  kUnloadTable,
  kSetServingVersion,
};
inline constexpr int kNumRpcs = 11;

// "embedding.v1.EmbeddingService" / "Lookup" ...
absl::string_view RpcServiceName(Rpc rpc);
absl::string_view RpcMethodName(Rpc rpc);

// The rpcs that carry rows come first, in Rpc. Only they have series for rows, batches, answer sizes and stages: the
// others answer from what is in memory, and their series would double the page.
inline constexpr int kNumDataRpcs = 4;

// Where a request's time goes: from arrival to handler or worker, wire to structs, rows and scores, structs to wire.
enum class Stage : uint8_t { kQueue, kDecode, kCompute, kEncode };

// What a table shows of itself.
struct TableMetrics {
  std::string name;
  int64_t version = 0;
  int64_t rows = 0;
  int64_t dim = 0;
  int64_t size_bytes = 0;
  double load_seconds = 0;
  double loaded_timestamp_seconds = 0;  // Unix time
  std::string dtype;                    // F32, F16, BF16
  std::string format;
  std::string fingerprint;
  int64_t index_size_bytes = 0;  // of the graph for approximate searches and the codes it is walked by; 0 without
};

struct BuildInfo {
  std::string version, revision, compiler, simd;
};

// Thread-safe. Latencies come from a monotonic clock and are never negative.
class Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(BuildInfo build);
  ~Metrics() override;

  // grpc_server_started_total, embedding_requests_in_flight.
  void OnStarted(Rpc rpc);
  // grpc_server_handled_total{grpc_code}, grpc_server_handling_seconds, embedding_requests_in_flight.
  // code: 0..16, a grpc::StatusCode; any other counts as UNKNOWN. A negative time counts as 0.
  void OnHandled(Rpc rpc, int code, std::chrono::nanoseconds elapsed);
  // embedding_response_bytes; of the data rpcs, as the next two.
  void OnResponseBytes(Rpc rpc, int64_t bytes);
  // embedding_rows_total{result="hit"|"miss"} and embedding_batch_rows (of hits and misses together), once a call.
  // Rows: ids or keys of a Lookup, vectors of both sides of a Similarity, queries of a NearestNeighbour.
  void OnRows(Rpc rpc, int64_t hits, int64_t misses);
  // embedding_stage_seconds{stage}.
  void OnStage(Rpc rpc, Stage stage, std::chrono::nanoseconds elapsed);
  // embedding_stream_items_total{grpc_code}: requests answered within a LookupStream. code: as in OnHandled.
  void OnStreamItem(int code);
  // embedding_expired_before_run_total: calls whose deadline was over before their work began.
  void OnExpiredBeforeRun(Rpc rpc);
  // embedding_nn_rows_scanned_total, embedding_nn_rows_rescored_total, embedding_nn_fallback_queries_total.
  void OnSearch(int64_t rows_scanned, int64_t rows_rescored, int64_t fallback_queries);
  // embedding_nn_survivors: for one query of a search, the rows that were scored again.
  void OnSurvivors(int64_t rows);
  // embedding_nn_pass_queries: for one pass over a table, the queries that shared it.
  void OnPass(int64_t queries);
  // embedding_log_messages_total{level}: level in trace, debug, info, warning, error, critical.
  // Another level is ignored.
  void OnLogMessage(absl::string_view level);
  // embedding_log_messages_dropped_total.
  void OnLogDropped(int64_t lines);
  // embedding_table_*: replaces what was known of the version that serves; the counts of reloads go on.
  void SetTable(const TableMetrics& table);
  // embedding_table_reloads_total{result="ok"|"failed"}, embedding_table_last_reload_successful and, when it went well,
  // embedding_table_last_reload_success_timestamp_seconds. A name that SetTable has not told of is ignored.
  void OnReload(const std::string& table, bool ok, double timestamp_seconds);
  // All series of the table end.
  void RemoveTable(const std::string& table);

  // Calls started and handled so far, all rpcs together. Read handled first: then started is never less.
  int64_t calls_started() const;
  int64_t calls_handled() const;

  // All families, process_* included.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding
