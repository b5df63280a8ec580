// Limits of one request: what GetServerInfo publishes and the parser enforces.
#pragma once

#include <chrono>
#include <cstdint>

namespace embedding {

struct RequestLimits {
  int64_t max_ids = 65536;
  int64_t max_queries = 1024;
  int64_t max_k = 10000;
  int64_t max_pairs = 1048576;
  int64_t max_filter_ids = 1048576;
  int64_t max_request_bytes = int64_t{16} << 20;
  int64_t max_response_bytes = int64_t{64} << 20;
  std::chrono::milliseconds max_deadline{30000};
};

}  // namespace embedding
