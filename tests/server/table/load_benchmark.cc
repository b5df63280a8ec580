// Timed: LoadRows of a raw F32 file of 1 GiB from the page cache (parallel pread into fresh huge pages, fingerprint,
// scan for zero and non-finite rows), against the same pread loop into the same kind of memory and nothing else. Both
// take the memory and give it back inside the timed part. Not timed: making the file. Both alternate, so that a noisy
// machine disturbs them alike; the medians count.
//
// Run: build/release/bin/load_benchmark [folder for the file, default /tmp] [MiB, default 1024] [threads, default 2]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "server/table/load_rows.h"
#include "server/table/private_memory.h"

namespace embedding {
namespace {

constexpr int64_t kDim = 768;
constexpr int kRuns = 7;

struct Times {
  double wall = 0;
  double cpu = 0;  // of all threads, user and system: what a busy machine leaves comparable
};

Times Measure(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC};
}

// Sorts the runs; gives the median of one of the times.
double Median(std::vector<Times>& runs, double Times::*time) {
  std::sort(runs.begin(), runs.end(), [time](const Times& a, const Times& b) { return a.*time < b.*time; });
  return runs[runs.size() / 2].*time;
}

void Print(const char* name, std::vector<Times>& runs, double gigabytes) {
  const double cpu = Median(runs, &Times::cpu);
  const double wall = Median(runs, &Times::wall);
  std::printf("%-12s %.3f s (%.3f..%.3f)  %.2f GB/s  cpu %.3f s\n", name, wall, runs.front().wall, runs.back().wall,
              gigabytes / wall, cpu);
}

int Run(const std::string& folder, int64_t mib, int threads) {
  const std::string path = folder + "/load_benchmark.raw";
  const int64_t num_rows = (mib << 20) / (kDim * 4);
  std::vector<float> row(kDim);
  {
    std::ofstream out(path, std::ios::binary);
    for (int64_t i = 0; i < num_rows; ++i) {
      for (int64_t j = 0; j < kDim; ++j) row[static_cast<size_t>(j)] = static_cast<float>((i * 31 + j * 7) % 1009 + 1);
      out.write(reinterpret_cast<const char*>(row.data()), kDim * 4);
    }
  }
  WorkerPool pool(threads);
  absl::StatusOr<SourceFile> file = SourceFile::Open(path);
  if (!file.ok()) return 1;
  const size_t size = file->size();
  std::vector<Times> plain, load;
  for (int run = 0; run <= kRuns; ++run) {
    bool good = true;
    const Times plain_times = Measure([&] {
      const std::shared_ptr<std::byte> memory = AllocatePrivate(size).value();
      std::atomic<size_t> next{0};
      pool.RunAndWait(threads, [&](int) {
        for (;;) {
          const size_t at = next.fetch_add(kFingerprintBlockBytes);
          if (at >= size) return;
          if (!file->ReadAt(at, std::min(kFingerprintBlockBytes, size - at), memory.get() + at).ok()) std::abort();
        }
      });
    });
    const Times load_times = Measure([&] {
      const absl::StatusOr<LoadedRows> rows = LoadRows(*file, {Dtype::kF32, num_rows, kDim, 0, false}, false, pool, {});
      good = rows.ok() && rows->zero_rows == 0 && rows->digests.size() == (size - 1) / kFingerprintBlockBytes + 1;
    });
    if (!good) return 1;
    if (run == 0) continue;  // brings the file into the page cache
    plain.push_back(plain_times);
    load.push_back(load_times);
  }
  const double gigabytes = static_cast<double>(size) / 1e9;
  Print("plain pread", plain, gigabytes);
  Print("LoadRows", load, gigabytes);
  std::printf("%-12s %.2f of wall time, %.2f of CPU time; %d threads, SIMD %s\n", "ratio",
              Median(load, &Times::wall) / Median(plain, &Times::wall),
              Median(load, &Times::cpu) / Median(plain, &Times::cpu), threads, SimdTargetName());
  std::filesystem::remove(path);
  return 0;
}

}  // namespace
}  // namespace embedding

int main(int argc, char** argv) {
  return embedding::Run(argc > 1 ? argv[1] : "/tmp", argc > 2 ? std::atoll(argv[2]) : 1024,
                        argc > 3 ? std::atoi(argv[3]) : 2);
}
