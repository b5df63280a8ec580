// `embedding-server health`: asks a running server how it is.
#pragma once

#include <chrono>
#include <string>

namespace embedding {

struct ProbeResult {
  int exit_code = 0;  // 0 serving, 4 not serving, 64 + N for gRPC status N
  std::string text;   // one line for people
};

// address: HOST:PORT, [HOST6]:PORT or unix:PATH; service: a health name, "" for the whole server. Nothing listens: 78
// at once.
ProbeResult ProbeHealth(const std::string& address, const std::string& service, std::chrono::milliseconds timeout);

// Where a server that listens at `address` is reached from its own machine: loopback instead of 0.0.0.0 and [::].
std::string ReachableAddress(const std::string& address);

}  // namespace embedding
