// Measured: memory and time that LoadTable takes, in this process, which does nothing else. First a safetensors file of
// 699,051 x 768 F16 (1 GiB): VmRSS afterwards over the size of the file, which must stay below 1.05. Then GloVe text of
// 400,000 x 100 with six decimals, as glove.6B.100d has: seconds, and VmRSS over the bytes of the rows. The files are
// made here and lie in the page cache, which is not part of VmRSS; making them is not timed.
//
// Run: build/release/bin/load_memory_benchmark [folder for the files, default /tmp] [percent of the sizes, default 100]
//      [threads, default 2]. Exit code 1 if a table does not load or takes too much memory.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/table/load_table.h"

namespace embedding {
namespace {

// VmRSS of this process in bytes.
int64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

void WriteSafetensors(const std::string& path, int64_t num_rows, int64_t dim) {
  std::ofstream out(path, std::ios::binary);
  const std::string shape = std::to_string(num_rows) + "," + std::to_string(dim);
  const std::string header = "{\"embeddings\":{\"dtype\":\"F16\",\"shape\":[" + shape + "],\"data_offsets\":[0," +
                             std::to_string(num_rows * dim * 2) + "]}}";
  const uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof(length)) << header;
  std::vector<uint16_t> row(static_cast<size_t>(dim));
  for (int64_t i = 0; i < num_rows; ++i) {
    // Finite: exponents from 2^-14 to 2^-7.
    for (size_t j = 0; j < row.size(); ++j)
      row[j] = static_cast<uint16_t>(0x0400 + (static_cast<size_t>(i) * 31 + j * 7) % 0x2000);
    out.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size() * sizeof(uint16_t)));
  }
}

void WriteGlove(const std::string& path, int64_t num_rows, int64_t dim) {
  std::ofstream out(path, std::ios::binary);
  uint32_t random = 12345;
  char text[32];
  for (int64_t i = 0; i < num_rows; ++i) {
    out << "word" << i;
    for (int64_t j = 0; j < dim; ++j) {
      random = random * 1664525u + 1013904223u;
      std::snprintf(text, sizeof(text), " %.6f", (static_cast<double>(random >> 8) / 8388608.0 - 1.0) * 3);
      out << text;
    }
    out << '\n';
  }
}

// Loads the table at the path and prints what that took; false if it failed, or holds more than bound times the bytes
// that count (of the file, or of the rows) and slack.
bool Measure(const std::string& path, bool against_rows, double bound, int threads) {
  const int64_t file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  WorkerPool pool(threads);
  const absl::StatusOr<TableOptions> options = ParseTableOptions("t=" + path);
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  const absl::StatusOr<std::unique_ptr<EmbeddingTable>> table = LoadTable(*options, {}, pool);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  std::filesystem::remove(path);
  if (!table.ok()) {
    std::printf("%s\n", std::string(table.status().message()).c_str());
    return false;
  }
  const int64_t resident = ResidentBytes();
  const int64_t counted = against_rows ? (*table)->size_bytes() : file_bytes;
  const double ratio = static_cast<double>(resident) / static_cast<double>(counted);
  std::printf("%-12s %lld x %lld, file %.1f MB, %.2f s (%.0f MB/s), cpu %.2f s, VmRSS %.1f MB, %.4f of the %s\n",
              std::string(TableFormatName((*table)->format())).c_str(), static_cast<long long>((*table)->num_rows()),
              static_cast<long long>((*table)->dim()), static_cast<double>(file_bytes) / 1e6, seconds,
              static_cast<double>(file_bytes) / 1e6 / seconds, cpu, static_cast<double>(resident) / 1e6, ratio,
              against_rows ? "rows" : "file");
  // A small run only shows that the benchmark works: the program and its buffers outweigh the rows.
  if (counted < (int64_t{128} << 20)) return true;
  // The program itself, which medium sizes do not hide.
  constexpr int64_t kProgram = int64_t{16} << 20;
  const bool is_large = counted >= (int64_t{512} << 20);
  return static_cast<double>(resident - (is_large ? 0 : kProgram)) < bound * static_cast<double>(counted);
}

int Run(const std::string& folder, int64_t percent, int threads) {
  const std::string safetensors = folder + "/load_memory_benchmark.safetensors";
  WriteSafetensors(safetensors, 699051 * percent / 100, 768);
  if (!Measure(safetensors, /*against_rows=*/false, 1.05, threads)) return 1;
  const std::string glove = folder + "/load_memory_benchmark.txt";
  WriteGlove(glove, 400000 * percent / 100, 100);
  // Beside the rows: a chunk of text a thread, and the keys with their index, some 50 bytes a row.
  return Measure(glove, /*against_rows=*/true, 1.35, threads) ? 0 : 1;
}

}  // namespace
}  // namespace embedding

int main(int argc, char** argv) {
  return embedding::Run(argc > 1 ? argv[1] : "/tmp", argc > 2 ? std::atoll(argv[2]) : 100,
                        argc > 3 ? std::atoi(argv[3]) : 2);
}
