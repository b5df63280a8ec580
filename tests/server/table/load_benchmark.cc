// Timed: LoadRows of a raw F32 file of 1 GiB from the page cache (parallel pread into fresh huge pages, fingerprint,
// scan for zero and non-finite rows), against the same pread loop into the same kind of memory and nothing else. Not
// timed: making the file, dropping the memory. Both alternate, so that a noisy machine disturbs them alike; the median
// of the runs counts.
//
// Run: build/release/bin/load_benchmark [folder for the file, default /tmp] [MiB, default 1024] [threads, default 2]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  std::vector<double> plain, load;
  for (int run = 0; run <= kRuns; ++run) {
    bool good = true;
    const double plain_seconds = Seconds([&] {
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
    const double load_seconds = Seconds([&] {
      const absl::StatusOr<LoadedRows> rows = LoadRows(*file, {Dtype::kF32, num_rows, kDim, 0, false}, false, pool, {});
      good = rows.ok() && rows->zero_rows == 0 && rows->digests.size() == (size - 1) / kFingerprintBlockBytes + 1;
    });
    if (!good) return 1;
    if (run == 0) continue;  // brings the file into the page cache
    plain.push_back(plain_seconds);
    load.push_back(load_seconds);
  }
  std::sort(plain.begin(), plain.end());
  std::sort(load.begin(), load.end());
  const double gb = static_cast<double>(size) / 1e9;
  std::printf("plain pread  %.3f s (%.3f..%.3f)  %.2f GB/s\n", plain[kRuns / 2], plain.front(), plain.back(),
              gb / plain[kRuns / 2]);
  std::printf("LoadRows     %.3f s (%.3f..%.3f)  %.2f GB/s\n", load[kRuns / 2], load.front(), load.back(),
              gb / load[kRuns / 2]);
  std::printf("ratio        %.2f by medians, %.2f by minima; %d threads, SIMD %s\n", load[kRuns / 2] / plain[kRuns / 2],
              load.front() / plain.front(), threads, SimdTargetName());
  std::filesystem::remove(path);
  return 0;
}

}  // namespace
}  // namespace embedding

int main(int argc, char** argv) {
  return embedding::Run(argc > 1 ? argv[1] : "/tmp", argc > 2 ? std::atoll(argv[2]) : 1024,
                        argc > 3 ? std::atoi(argv[3]) : 2);
}
