// The one client of the lookup benchmarks: closed loop, the same number of calls outstanding against every server.
//
//   lookup_client KIND ADDRESS ROWS DIM BATCH OUTSTANDING CONNECTIONS [IDS]
//
// KIND: unary (LookupRequest), floor, api (the method of api_server), textbook, stream (LookupStream; one stream a
// connection, OUTSTANDING requests on all of them together), redis (MGET; keys are decimal ids). IDS: uniform, or zipf
// (P(id) ~ 1 / (id + 1)). Each connection has a thread of its own. Requests are made before the clock starts. The first
// answers are compared with the table. Then reads lines from stdin:
//   run SECONDS    a window without touching the answers
//   copy SECONDS   a window in which each answer is copied once into a buffer
// and answers each with a line {"calls":..,"rows":..,"seconds":..,"cpu_seconds":..}; or
//   pace RATE CALLS   one call at a time, planned RATE a second; answers {"calls":..,"slow":..,"worst_ms":..}: slow is
//                     a call whose answer is parsed more than 10 ms after the planned time
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/bench/bench_table.h"
#include "tests/bench/lookup_connection.h"

namespace embedding::bench {
namespace {

constexpr size_t kRequests = 2048;

Batches MakeBatches(const Setup& setup, uint64_t seed) {
  std::mt19937_64 random(seed);
  Batches batches(kRequests, std::vector<int64_t>(static_cast<size_t>(setup.batch)));
  std::vector<double> weights(setup.zipf ? static_cast<size_t>(setup.num_rows) : 0);
  for (size_t id = 0; id < weights.size(); ++id) weights[id] = 1 / static_cast<double>(id + 1);
  std::discrete_distribution<int64_t> zipf(weights.begin(), weights.end());
  for (auto& batch : batches) {
    for (int64_t& id : batch) {
      id = setup.zipf ? zipf(random) : static_cast<int64_t>(random() % static_cast<uint64_t>(setup.num_rows));
    }
  }
  return batches;
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void RunWindow(const Setup& setup, std::vector<std::unique_ptr<Connection>>& connections, double seconds, bool copy) {
  const double cpu = CpuSeconds();
  const Clock::time_point start = Clock::now();
  std::vector<Window> windows(connections.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < connections.size(); ++i) {
    windows[i].end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    windows[i].copy = copy;
    threads.emplace_back([&, i] { connections[i]->Run(windows[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed = SecondsSince(start);
  int64_t calls = setup.outstanding;  // those that ended after the window's end, and before `elapsed` was taken
  for (const Window& window : windows) calls += window.calls;
  Say("{\"calls\":%lld,\"rows\":%lld,\"seconds\":%.6f,\"cpu_seconds\":%.6f}", static_cast<long long>(calls),
      static_cast<long long>(calls * setup.batch), elapsed, CpuSeconds() - cpu);
}

void RunPaced(Connection& connection, double rate, int64_t calls) {
  constexpr std::chrono::milliseconds kSlow{10};
  int64_t slow = 0;
  std::chrono::duration<double> worst{0};
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) {
    const std::chrono::duration<double> since_start(static_cast<double>(i) / rate);
    const Clock::time_point planned = start + std::chrono::duration_cast<Clock::duration>(since_start);
    std::this_thread::sleep_until(planned);
    connection.FetchRows();
    const Clock::duration taken = Clock::now() - planned;
    if (taken > kSlow) ++slow;
    worst = std::max(worst, std::chrono::duration<double>(taken));
  }
  Say("{\"calls\":%lld,\"slow\":%lld,\"worst_ms\":%.3f}", static_cast<long long>(calls), static_cast<long long>(slow),
      worst.count() * 1e3);
}

int Main(const Setup& setup) {
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < setup.connections; ++i) {
    const Batches batches = MakeBatches(setup, static_cast<uint64_t>(i) + 1);
    const int outstanding = setup.outstanding / setup.connections;
    connections.push_back(setup.kind == "redis" ? ConnectToRedis(setup, batches, outstanding, /*fill_table=*/i == 0)
                                                : ConnectByGrpc(setup, batches, outstanding));
    const std::vector<float> rows = connections.back()->FetchRows();
    if (setup.kind == "floor" || setup.kind == "api") continue;
    std::vector<float> want(static_cast<size_t>(setup.batch * setup.dim));
    for (int64_t r = 0; r < setup.batch; ++r) {
      FillRow(batches[0][static_cast<size_t>(r)], setup.dim, want.data() + r * setup.dim);
    }
    if (rows != want) Die("the first answer is not the table's rows");
  }
  Say("ready");
  for (std::string command; std::cin >> command;) {
    if (command == "run" || command == "copy") {
      RunWindow(setup, connections, NextNumber<double>(0), command == "copy");
    } else if (command == "pace") {
      const auto rate = NextNumber<double>(1e-3);
      RunPaced(*connections[0], rate, NextNumber<int64_t>(1));
    } else {
      Die("unknown command " + command);
    }
  }
  return 0;
}

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  const std::string ids = argc == 9 ? argv[8] : "uniform";
  if (argc < 8 || argc > 9 || (ids != "uniform" && ids != "zipf")) {
    std::fprintf(stderr, "usage: lookup_client KIND ADDRESS ROWS DIM BATCH OUTSTANDING CONNECTIONS [uniform|zipf]\n");
    return 2;
  }
  // As embedding-loadtest does.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return embedding::bench::Main({argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5]),
                                 std::atoi(argv[6]), std::atoi(argv[7]), ids == "zipf"});
}
