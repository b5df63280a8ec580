// How a client reaches a server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace embedding {

struct ClientOptions {
  std::string address = "127.0.0.1:50051";        // HOST:PORT, dns:///..., or unix:PATH
  std::chrono::milliseconds deadline{5000};       // of every call with all its parts and attempts; > 0
  int64_t max_receive_bytes = int64_t{64} << 20;  // of one answer, 1..2^31-1; longer answers are asked for in parts
  int max_attempts = 4;                           // of each request that ends UNAVAILABLE or is pushed back, 1..10
};

}  // namespace embedding
