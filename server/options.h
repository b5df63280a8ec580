// Every knob of the server with unit, default and range.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/service/admission.h"
#include "server/service/limits.h"
#include "server/table/table_options.h"

namespace embedding {

struct ServerOptions {
  std::vector<TableOptions> tables;              // --table, repeatable; EMBEDDING_TABLE separates entries by ';'
  std::string grpc_address = "127.0.0.1:50051";  // --grpc-address; HOST:PORT, [HOST6]:PORT or unix:PATH; port 0: any
  std::string admin_address = "127.0.0.1:9464";  // --admin-address; HOST:PORT
  int threads = 0;                               // --threads; 0: as the CPU quota and affinity allow
  int polling_threads = 0;                       // --polling-threads; 0: PollingThreadsFor(threads)
  RequestLimits limits;                          // --max-ids, --max-queries, ...
  AdmissionLimits admission;                     // --max-in-flight-bytes, --max-queued-searches
  TableLimits table_limits;                      // --max-rows, --max-dim
  std::string table_root;                        // --table-root: folder that LoadTable loads from; empty: no LoadTable
  int64_t keep_versions = 2;                     // --keep-versions: of a table, in memory, the serving one counted
  int64_t max_table_bytes = 0;                   // --max-table-bytes; 0: as the memory limit allows
  std::chrono::milliseconds drain_delay{0};      // --drain-delay: NOT_SERVING, but still answering
  std::chrono::milliseconds drain_timeout{10000};  // --drain-timeout: for calls in flight
  std::string log_format = "text";                 // --log-format text|json
  std::string log_level = "info";                  // --log-level
  bool reflection = true;                          // --reflection=true|false
};

// How a value looks in a configuration file.
enum class ValueKind : uint8_t { kString, kNumber, kBool, kStringList };

// One knob as an operator meets it.
struct Setting {
  std::string flag;        // "grpc-address", without dashes; also the key in a configuration file
  std::string group;       // heading in --help
  std::string value_name;  // "HOST:PORT"
  std::string help;
  ValueKind kind = ValueKind::kString;
  // Reads one value into the options; a list is read entry by entry. INVALID_ARGUMENT says what is allowed.
  std::function<absl::Status(absl::string_view text, ServerOptions& options)> set;
  // The value as text that `set` reads; unused for a list.
  std::function<std::string(const ServerOptions& options)> show;
};

// All of them, in the order of --help.
const std::vector<Setting>& Settings();

// "grpc-address" -> "EMBEDDING_GRPC_ADDRESS".
std::string EnvironmentName(absl::string_view flag);

// What no single setting can tell: INVALID_ARGUMENT for tables of one name, limits that contradict each other, one
// address for both ports.
absl::Status CheckTogether(const ServerOptions& options);

}  // namespace embedding
