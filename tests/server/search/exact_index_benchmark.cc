// Times exact search against a plain read of the table's bytes by as many threads, in turns (A B A B), so that whatever
// else the machine does meets both alike. Timed: Start to done, and one sum over all 64-bit words of the same memory.
// Not timed: building the table and its norms. Results are checked against each other between the configurations.
//
//   exact_index_benchmark                  50,257 x 768 in F32, F16 and BF16, 1 and 64 queries; 1 query with filters:
//                                          a random half of the rows (a bitmap), one in 100 (a list), a tenth (a range)
//   exact_index_benchmark --rows N --dim D --rounds R --threads T --only F32 --fail-above RATIO
//
// The last line of each configuration is the median of the ratios of neighbouring runs. --fail-above: exit 1 if that of
// one F32 query is above.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/exec/cpu_count.h"
#include "server/search/exact_index.h"
#include "server/table/private_memory.h"
#include "tests/server/search/wide_read.h"

namespace embedding {
namespace {

struct Options {
  int64_t rows = 50257;
  int64_t dim = 768;
  int rounds = 15;
  int threads = AvailableCpus();
  double fail_above = 0;
  std::string only;  // a dtype; empty: all three
};

double Seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Processor time of all threads: what remains comparable on a machine that others keep busy.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Rows in the memory that a loaded table has.
std::unique_ptr<EmbeddingTable> MakeTable(Dtype dtype, const std::vector<float>& values, int64_t dim) {
  std::shared_ptr<std::byte> rows = AllocatePrivate(values.size() * DtypeSize(dtype)).value();
  NarrowFromF32(values.data(), values.size(), ElementTypeOf(dtype), rows.get());
  EmbeddingTable::Parts parts;
  parts.name = "benchmark";
  parts.num_rows = static_cast<int64_t>(values.size()) / dim;
  parts.dim = dim;
  parts.dtype = dtype;
  parts.source_dtype = dtype;
  parts.rows = std::move(rows);
  return std::make_unique<EmbeddingTable>(std::move(parts));
}

double TimeRead(const EmbeddingTable& table, WorkerPool& pool, uint64_t* checksum) {
  constexpr size_t kBlock = size_t{1} << 18;
  const auto size = static_cast<size_t>(table.size_bytes());
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> sum{0};
  const auto begin = std::chrono::steady_clock::now();
  pool.RunAndWait(pool.num_threads(), [&](int) {
    uint64_t own = 0;
    for (;;) {
      const size_t at = next.fetch_add(kBlock, std::memory_order_relaxed);
      if (at >= size) break;
      own += testing::SumWords(table.rows() + at, std::min(kBlock, size - at));
    }
    sum.fetch_add(own);
  });
  *checksum = sum.load();
  return Seconds(std::chrono::steady_clock::now() - begin);
}

double TimeSearch(const NeighbourIndex& index, const NeighbourQuery& query, WorkerPool& pool, NeighbourResult* result) {
  std::promise<NeighbourResult> promise;
  const auto begin = std::chrono::steady_clock::now();
  index.Start(query, pool, {}, [&promise](NeighbourResult found) { promise.set_value(std::move(found)); });
  *result = promise.get_future().get();
  return Seconds(std::chrono::steady_clock::now() - begin);
}

// Median ratio of search to read.
double Compare(const EmbeddingTable& table, const NeighbourIndex& index, bool with_codes,
               const std::vector<float>& queries, size_t num_queries, const Options& options, WorkerPool& pool,
               const RowFilter& filter = {}, const char* filter_name = "") {
  NeighbourQuery query;
  query.metric = Metric::kCosine;
  query.k = 10;
  query.filter = filter;
  for (size_t q = 0; q < num_queries; ++q) {
    query.queries.push_back({queries.data() + q * static_cast<size_t>(table.dim()), ElementType::kF32});
  }
  std::vector<double> reads;
  std::vector<double> searches;
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  NeighbourResult result;
  NeighbourResult previous;
  uint64_t checksum = 0;
  for (int round = 0; round < options.rounds + 2; ++round) {
    const double cpu_begin = CpuSeconds();
    const double read = TimeRead(table, pool, &checksum);
    const double cpu_between = CpuSeconds();
    const double search = TimeSearch(index, query, pool, &result);
    const double cpu_end = CpuSeconds();
    if (round > 0 && result.neighbours != previous.neighbours) {
      std::fprintf(stderr, "results differ between two runs\n");
      std::exit(1);
    }
    previous = result;
    if (round < 2) continue;  // warm-up
    reads.push_back(read);
    searches.push_back(search);
    ratios.push_back(search / read);
    cpu_ratios.push_back((cpu_end - cpu_between) / (cpu_between - cpu_begin));
  }
  const auto bytes = static_cast<double>(table.size_bytes());
  std::printf("%-4s%s %lld x %lld, %zu quer%s, k=10, %d threads, %s%s\n", std::string(DtypeName(table.dtype())).c_str(),
              with_codes ? " with codes" : "", static_cast<long long>(table.num_rows()),
              static_cast<long long>(table.dim()), num_queries, num_queries == 1 ? "y" : "ies", pool.num_threads(),
              SimdTargetName(), filter_name);
  std::printf("  plain read   %8.3f ms  %6.2f GB/s  (words sum to %016llx)\n", Median(reads) * 1e3,
              bytes / Median(reads) / 1e9, static_cast<unsigned long long>(checksum));
  std::printf(
      "  search       %8.3f ms  %6.2f GB/s  (%.1f us a query, %lld rows rescored, %lld by the full scan)\n",
      Median(searches) * 1e3, bytes / Median(searches) / 1e9, Median(searches) * 1e6 / static_cast<double>(num_queries),
      static_cast<long long>(result.stats.rows_rescored), static_cast<long long>(result.stats.fallback_queries));
  std::printf("  search/read  %8.3f     (median of %zu pairs, %.3f..%.3f; by processor time %.3f)\n", Median(ratios),
              ratios.size(), *std::min_element(ratios.begin(), ratios.end()),
              *std::max_element(ratios.begin(), ratios.end()), Median(cpu_ratios));
  std::fflush(stdout);
  return Median(ratios);
}

int Run(const Options& options) {
  std::mt19937_64 random(20261129);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(options.rows * options.dim));
  for (float& value : values) value = normal(random);
  std::vector<float> queries(static_cast<size_t>(64 * options.dim));
  for (float& value : queries) value = normal(random);
  std::vector<int64_t> half_of_rows(static_cast<size_t>(options.rows));
  std::iota(half_of_rows.begin(), half_of_rows.end(), 0);
  std::shuffle(half_of_rows.begin(), half_of_rows.end(), random);
  half_of_rows.resize(half_of_rows.size() / 2);
  WorkerPool pool(options.threads);
  double ratio = 0;
  for (Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    if (!options.only.empty() && options.only != std::string(DtypeName(dtype))) continue;
    const auto table = MakeTable(dtype, values, options.dim);
    for (const bool with_codes : {false, true}) {
      if (with_codes && dtype != Dtype::kF32) continue;
      const auto index = BuildExactIndex(*table, with_codes, pool).value();
      for (size_t num_queries : {1, 64}) {
        const double median = Compare(*table, *index, with_codes, queries, num_queries, options, pool);
        if (dtype == Dtype::kF32 && !with_codes && num_queries == 1) ratio = median;
      }
      RowFilter half;
      half.allow = half_of_rows;
      Compare(*table, *index, with_codes, queries, 1, options, pool, half, ", half of the rows allowed");
      RowFilter few;
      few.allow = std::span(half_of_rows).first(half_of_rows.size() / 50);
      Compare(*table, *index, with_codes, queries, 1, options, pool, few, ", one row in 100 allowed");
      RowFilter range;
      range.end_row = options.rows / 10;
      Compare(*table, *index, with_codes, queries, 1, options, pool, range, ", the first tenth of the rows");
    }
  }
  if (options.fail_above > 0 && ratio > options.fail_above) {
    std::printf("FAILED: one F32 query took %.3f times a plain read, allowed %.3f\n", ratio, options.fail_above);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace embedding

int main(int argc, char** argv) {
  embedding::Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--rows") {
      options.rows = std::atoll(value);
    } else if (flag == "--dim") {
      options.dim = std::atoll(value);
    } else if (flag == "--rounds") {
      options.rounds = std::atoi(value);
    } else if (flag == "--only") {
      options.only = value;
    } else if (flag == "--threads") {
      options.threads = std::atoi(value);
    } else if (flag == "--fail-above") {
      options.fail_above = std::atof(value);
    } else {
      std::fprintf(stderr, "unknown flag %s; see the head of exact_index_benchmark.cc\n", argv[i]);
      return 2;
    }
  }
  if (options.rows < 1 || options.dim < 1 || options.rounds < 1 || options.threads < 1) {
    std::fprintf(stderr, "--rows, --dim, --rounds and --threads are numbers of at least 1\n");
    return 2;
  }
  return embedding::Run(options);
}
