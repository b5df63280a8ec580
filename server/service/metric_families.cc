#include "server/service/metric_families.h"

#include <cstddef>

namespace embedding {
namespace {

using enum prometheus::MetricType;

constexpr const char* kRpcLabels = "grpc_type,grpc_service,grpc_method";

}  // namespace

const std::array<FamilyInfo, kNumFamilies> kFamilies = {{
    {Family::kStarted, "grpc_server_started_total", Counter, "calls", kRpcLabels,
     "Calls that reached the server's handlers."},
    {Family::kHandled, "grpc_server_handled_total", Counter, "calls", "grpc_type,grpc_service,grpc_method,grpc_code",
     "Calls that the server ended, by status code."},
    {Family::kHandlingSeconds, "grpc_server_handling_seconds", Histogram, "seconds", kRpcLabels,
     "Time from a call's arrival at its handler to its end, in seconds."},
    {Family::kInFlight, "embedding_requests_in_flight", Gauge, "calls", "grpc_method",
     "Calls that reached a handler and have not ended."},
    {Family::kExpiredBeforeRun, "embedding_expired_before_run_total", Counter, "calls", "grpc_method",
     "Calls whose deadline was over before their work began."},
    {Family::kStreamItems, "embedding_stream_items_total", Counter, "requests", "grpc_method,grpc_code",
     "Requests answered within a stream, by the status code of each."},
    {Family::kRows, "embedding_rows_total", Counter, "rows", "grpc_method,result",
     "Rows asked for: ids or keys of a Lookup, vectors of both sides of a Similarity, queries of a NearestNeighbour; "
     "miss: not in the table."},
    {Family::kBatchRows, "embedding_batch_rows", Histogram, "rows", "grpc_method", "Rows asked for in one call."},
    {Family::kResponseBytes, "embedding_response_bytes", Histogram, "bytes", "grpc_method",
     "Size of an answer's message, in bytes."},
    {Family::kStageSeconds, "embedding_stage_seconds", Histogram, "seconds", "grpc_method,stage",
     "Time a call spent in one stage, in seconds: queue (waiting for a thread), decode (wire to structs), compute "
     "(rows and scores), encode (structs to wire)."},
    {Family::kNnRowsScanned, "embedding_nn_rows_scanned_total", Counter, "rows", "",
     "Rows that neighbour searches compared, once for every query."},
    {Family::kNnRowsRescored, "embedding_nn_rows_rescored_total", Counter, "rows", "",
     "Candidate rows that neighbour searches scored again in double precision."},
    {Family::kNnFallbackQueries, "embedding_nn_fallback_queries_total", Counter, "queries", "",
     "Queries for which the fast pass left too many candidates and every row was scored in double precision."},
    {Family::kNnSurvivors, "embedding_nn_survivors", Histogram, "rows", "",
     "Rows that one query of a neighbour search scored again in double precision."},
    {Family::kNnPassQueries, "embedding_nn_pass_queries", Histogram, "queries", "",
     "Queries, of any caller, that shared one pass over a table."},
    {Family::kTableRows, "embedding_table_rows", Gauge, "rows", "table", "Rows of a loaded table."},
    {Family::kTableDimensions, "embedding_table_dimensions", Gauge, "columns", "table",
     "Width of a loaded table's rows, in elements."},
    {Family::kTableSizeBytes, "embedding_table_size_bytes", Gauge, "bytes", "table",
     "Memory taken by a loaded table, in bytes."},
    {Family::kTableIndexSizeBytes, "embedding_table_index_size_bytes", Gauge, "bytes", "table",
     "Memory taken by the graph for approximate searches and the codes that it is walked by, in bytes; 0 without one."},
    {Family::kTableLoadSeconds, "embedding_table_load_duration_seconds", Gauge, "seconds", "table",
     "Time that loading the table took, in seconds."},
    {Family::kTableLoadedTimestamp, "embedding_table_loaded_timestamp_seconds", Gauge, "seconds", "table",
     "When the table was loaded, in seconds since the Unix epoch."},
    {Family::kTableInfo, "embedding_table_info", Gauge, "", "table,version,dtype,format,fingerprint",
     "Always 1; the labels describe a loaded table. Replicas that serve the same rows show the same fingerprint."},
    {Family::kTableReloads, "embedding_table_reloads_total", Counter, "reloads", "table,result",
     "Times that a loaded table was loaded again, by outcome: ok, or failed, after which the old version serves on."},
    {Family::kTableLastReloadSuccessful, "embedding_table_last_reload_successful", Gauge, "", "table",
     "1 if the last load of the table went well, 0 if it failed and an old version serves."},
    {Family::kTableLastReloadSuccess, "embedding_table_last_reload_success_timestamp_seconds", Gauge, "seconds",
     "table", "When a load of the table last went well, in seconds since the Unix epoch."},
    {Family::kTablesMemoryBytes, "embedding_tables_memory_bytes", Gauge, "bytes", "",
     "Memory of all versions of all tables, draining ones included, in bytes."},
    {Family::kTablesMemoryLimit, "embedding_tables_memory_limit_bytes", Gauge, "bytes", "",
     "Bound of embedding_tables_memory_bytes, in bytes; 0: none."},
    {Family::kBuildInfo, "embedding_build_info", Gauge, "", "version,revision,compiler,simd",
     "Always 1; the labels describe the binary and the SIMD target that it uses here."},
    {Family::kLogMessages, "embedding_log_messages_total", Counter, "lines", "level",
     "Lines logged, dropped ones included."},
    {Family::kLogMessagesDropped, "embedding_log_messages_dropped_total", Counter, "lines", "",
     "Log lines dropped because nothing read the log fast enough."},
    {Family::kProcessCpuSeconds, "process_cpu_seconds_total", Counter, "seconds", "",
     "User and system CPU time spent, in seconds."},
    {Family::kProcessResidentBytes, "process_resident_memory_bytes", Gauge, "bytes", "", "Resident memory, in bytes."},
    {Family::kProcessVirtualBytes, "process_virtual_memory_bytes", Gauge, "bytes", "", "Virtual memory, in bytes."},
    {Family::kProcessOpenFds, "process_open_fds", Gauge, "descriptors", "", "Open file descriptors."},
    {Family::kProcessMaxFds, "process_max_fds", Gauge, "descriptors", "", "Most file descriptors allowed to be open."},
    {Family::kProcessStartTime, "process_start_time_seconds", Gauge, "seconds", "",
     "When the process started, in seconds since the Unix epoch."},
    {Family::kProcessThreads, "process_threads", Gauge, "threads", "", "Threads of the process."},
}};

const FamilyInfo& InfoOf(Family family) { return kFamilies[static_cast<size_t>(family)]; }

}  // namespace embedding
