// How a client reaches a server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace embedding {

struct ClientOptions {
  std::string address = "127.0.0.1:50051";      // HOST:PORT, dns:///..., or unix:PATH
  std::chrono::milliseconds deadline{5000};     // of every call; > 0
  int64_t max_receive_bytes = int64_t{64} << 20;  // of one answer
};

}  // namespace embedding
