// Times many callers with one query each, who ask again as soon as they are answered, on an index whose callers share
// passes and on one where each has its own, in turns (A B A B). Timed: queries answered per second, from the library's
// Start to its done; no wire. Not timed: building tables and codes. Every answer is compared with that of the other
// index. Between the rounds one caller alone asks both: sharing must not delay it.
//
//   shared_passes_benchmark                   1,000,000 x 128, F32 with codes, 16 callers, k=10
//   shared_passes_benchmark --rows N --dim D --callers N --rounds R --seconds S --threads T --codes 0|1
//                           --json 1        one line for programs, with the figures of every round
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/exec/cpu_count.h"
#include "server/search/exact_index.h"
#include "server/table/private_memory.h"
#include "tests/server/search/search_testing.h"

namespace embedding {
namespace {

struct Options {
  int64_t rows = 1000000;
  int64_t dim = 128;
  int callers = 16;
  int rounds = 5;
  double seconds = 2;
  int threads = AvailableCpus();
  bool codes = true;
  bool json = false;
};

constexpr int64_t kNumQueries = 64;
using Clock = std::chrono::steady_clock;

std::unique_ptr<EmbeddingTable> MakeTable(const Options& options, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  const auto size = static_cast<size_t>(options.rows * options.dim);
  std::shared_ptr<std::byte> rows = AllocatePrivate(size * sizeof(float)).value();
  auto* values = reinterpret_cast<float*>(rows.get());
  for (size_t i = 0; i < size; ++i) values[i] = normal(random);
  EmbeddingTable::Parts parts;
  parts.name = "benchmark";
  parts.num_rows = options.rows;
  parts.dim = options.dim;
  parts.dtype = Dtype::kF32;
  parts.source_dtype = Dtype::kF32;
  parts.rows = std::move(rows);
  return std::make_unique<EmbeddingTable>(std::move(parts));
}

NeighbourResult Search(const NeighbourIndex& index, const float* query, WorkerPool& pool) {
  return testing::Search(index, {Metric::kCosine, 10, {{query, ElementType::kF32}}, {}}, pool);
}

struct Run {
  double queries_per_second = 0;
  double queries_per_pass = 0;
};

Run Measure(const NeighbourIndex& index, const std::vector<float>& queries,
            const std::vector<std::vector<Neighbour>>& want, const Options& options, int callers, double seconds,
            WorkerPool& pool) {
  std::atomic<int64_t> answered{0};
  std::atomic<int64_t> passes{0};
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(callers));
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      for (int64_t i = caller; Clock::now() < end; ++i) {
        const auto q = static_cast<size_t>(i % kNumQueries);
        const NeighbourResult result = Search(index, queries.data() + q * static_cast<size_t>(options.dim), pool);
        if (result.neighbours[0] != want[q]) {
          std::fprintf(stderr, "query %zu has another answer than alone\n", q);
          std::exit(1);
        }
        answered.fetch_add(1);
        passes.fetch_add(static_cast<int64_t>(result.stats.pass_queries.size()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
  const auto count = static_cast<double>(answered.load());
  return {count / taken, count / static_cast<double>(std::max<int64_t>(1, passes.load()))};
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string List(const std::vector<double>& values) {
  std::string list = "[";
  for (const double value : values) list.append(list.size() == 1 ? "" : ",").append(std::to_string(value));
  return list += "]";
}

int Main(const Options& options) {
  std::mt19937_64 random(20261130);
  WorkerPool pool(options.threads);
  const auto table = MakeTable(options, random);
  std::normal_distribution<float> normal;
  std::vector<float> queries(static_cast<size_t>(kNumQueries * options.dim));
  for (float& value : queries) value = normal(random);
  const auto shared = BuildExactIndex(*table, options.codes, pool).value();
  const auto alone = BuildExactIndex(*table, options.codes, pool, {}, /*share_passes=*/false).value();
  std::vector<std::vector<Neighbour>> want;
  for (int64_t q = 0; q < kNumQueries; ++q) {
    want.push_back(Search(*alone, queries.data() + q * options.dim, pool).neighbours[0]);
  }
  std::vector<double> with;
  std::vector<double> without;
  std::vector<double> ratios;
  std::vector<double> per_pass;
  std::vector<double> lone_with;  // milliseconds of a query
  std::vector<double> lone_without;
  const auto measure = [&](const NeighbourIndex& index, int callers, double seconds) {
    return Measure(index, queries, want, options, callers, seconds, pool);
  };
  for (int round = 0; round < options.rounds; ++round) {
    const Run a = measure(*shared, options.callers, options.seconds);
    const Run b = measure(*alone, options.callers, options.seconds);
    lone_with.push_back(1e3 / measure(*shared, 1, options.seconds / 4).queries_per_second);
    lone_without.push_back(1e3 / measure(*alone, 1, options.seconds / 4).queries_per_second);
    with.push_back(a.queries_per_second);
    without.push_back(b.queries_per_second);
    ratios.push_back(a.queries_per_second / b.queries_per_second);
    per_pass.push_back(a.queries_per_pass);
  }
  if (options.json) {
    std::printf("{\"shared\":%s,\"alone\":%s,\"queries_per_pass\":%s,\"lone_shared_ms\":%s,\"lone_alone_ms\":%s}\n",
                List(with).c_str(), List(without).c_str(), List(per_pass).c_str(), List(lone_with).c_str(),
                List(lone_without).c_str());
    return 0;
  }
  std::printf("%lld x %lld F32%s, %d callers of one query, k=10, %d threads, %s\n",
              static_cast<long long>(options.rows), static_cast<long long>(options.dim),
              options.codes ? " with codes" : "", options.callers, pool.num_threads(), SimdTargetName());
  std::printf("  shared   %10.1f queries/s  (%.1f queries a pass)\n", Median(with), Median(per_pass));
  std::printf("  alone    %10.1f queries/s\n", Median(without));
  std::printf("  shared/alone %6.3f     (median of %zu pairs, %.3f..%.3f)\n", Median(ratios), ratios.size(),
              *std::min_element(ratios.begin(), ratios.end()), *std::max_element(ratios.begin(), ratios.end()));
  std::printf("  one caller %8.3f ms a query where passes are shared, %.3f ms where they are not\n", Median(lone_with),
              Median(lone_without));
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
    } else if (flag == "--callers") {
      options.callers = std::atoi(value);
    } else if (flag == "--rounds") {
      options.rounds = std::atoi(value);
    } else if (flag == "--seconds") {
      options.seconds = std::atof(value);
    } else if (flag == "--threads") {
      options.threads = std::atoi(value);
    } else if (flag == "--codes") {
      options.codes = std::atoi(value) != 0;
    } else if (flag == "--json") {
      options.json = std::atoi(value) != 0;
    } else {
      std::fprintf(stderr, "unknown flag %s; see the head of shared_passes_benchmark.cc\n", argv[i]);
      return 2;
    }
  }
  if (options.rows < 1 || options.dim < 1 || options.callers < 1 || options.rounds < 1 || options.threads < 1 ||
      !(options.seconds > 0)) {
    std::fprintf(stderr, "--rows, --dim, --callers, --rounds, --seconds and --threads are numbers above 0\n");
    return 2;
  }
  return embedding::Main(options);
}
