// Every knob of the server with unit, default and range.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "server/service/admission.h"
#include "server/service/limits.h"
#include "server/table/table_options.h"

namespace embedding {

struct ServerOptions {
  std::vector<TableOptions> tables;              // --table, repeatable; EMBEDDING_TABLE separates entries by ';'
  std::string grpc_address = "127.0.0.1:50051";  // --grpc-address; HOST:PORT, [HOST6]:PORT or unix:PATH; port 0: any
  std::string admin_address = "127.0.0.1:9464";  // --admin-address; HOST:PORT
  int threads = 0;                               // --threads; 0: as the CPU quota and affinity allow
  RequestLimits limits;                          // --max-ids, --max-queries, ...
  AdmissionLimits admission;                     // --max-in-flight-bytes, --max-queued-searches
  TableLimits table_limits;                      // --max-rows, --max-dim
  std::chrono::milliseconds drain_delay{0};      // --drain-delay: NOT_SERVING, but still answering
  std::chrono::milliseconds drain_timeout{10000};  // --drain-timeout: for calls in flight
  std::string log_format = "text";               // --log-format text|json
  std::string log_level = "info";                // --log-level
  bool reflection = true;                        // --reflection=true|false
};

}  // namespace embedding
