// Connections of lookup_client to what it measures, all behind one interface.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/bench_program.h"

namespace embedding::bench {

// The words that lookup_client is started with.
struct Setup {
  std::string kind;
  std::string address;
  int64_t num_rows = 0;
  int64_t dim = 0;
  int64_t batch = 0;
  int outstanding = 0;
  int connections = 0;
  bool zipf = false;
};

// What one window counts.
struct Window {
  Clock::time_point end;
  bool copy = false;
  int64_t calls = 0;
};

// One connection and its share of the calls, used by one thread.
class Connection {
 public:
  virtual ~Connection() = default;
  // Fetches request number 0 and gives its rows.
  virtual std::vector<float> FetchRows() = 0;
  // Calls until the window ends, and awaits those that are outstanding by then, which are not counted.
  virtual void Run(Window& window) = 0;
};

using Batches = std::vector<std::vector<int64_t>>;  // the ids of each request

// Requests are made at once; so many calls are outstanding while a window runs. To any of the servers that speak gRPC:
std::unique_ptr<Connection> ConnectByGrpc(const Setup& setup, const Batches& batches, int outstanding);
// fill_table: writes every row first, which one connection does for all.
std::unique_ptr<Connection> ConnectToRedis(const Setup& setup, const Batches& batches, int outstanding,
                                           bool fill_table);

// Of little-endian F32.
inline std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

}  // namespace embedding::bench
