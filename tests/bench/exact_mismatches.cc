// Counts the answers of exact searches that differ, in an id or in a bit of a score, from the full scan of the table by
// the definition of a score (tests/testing/reference_scan.h). There must be none.
//
//   exact_mismatches [--queries N] [--large N] [--threads N] [--first-round N]
//
// --queries (1,000,000): on tables of up to 4,096 x 128 of every stored type: normal rows, equal rows, huge and tiny
// lengths, zeros, denormals, near ties, some rows not finite. Calls of 1 to 64 queries, several at once, so that they
// share passes; every metric, k from 1 to beyond the table, filters, exclusions, thresholds; with codes and without;
// every SIMD target of the machine; pools of 1 to 4 threads.
// --large (2,000): the same calls on 50,257 x 768 and 1,000,000 x 128 normal rows and 300,000 x 128 rows that tie
// often.
// --threads: that compute the reference; the machine's. --first-round: of the small tables, to see one again.
//
// Prints one line of JSON; the first differences on stderr. Exit code 1 if there is one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/exec/cpu_count.h"
#include "tests/server/search/random_call.h"
#include "tests/server/search/search_testing.h"
#include "tests/testing/simd_targets.h"

namespace embedding::bench {
namespace {

using testing::Bits;
using testing::Pick;
using testing::RandomCall;
using testing::RandomRows;
using testing::ReferenceScan;
using testing::ScopedSimdTarget;
using testing::VectorKind;

constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kF16,    Dtype::kBF16,  Dtype::kI8,
                             Dtype::kU8,  Dtype::kF8E4M3, Dtype::kF8E5M2};
constexpr int kMostThreads = 4;
constexpr int64_t kQueriesPerTable = 250;
constexpr int64_t kShownMismatches = 10;

struct Options {
  int64_t queries = 1000000;
  int64_t large = 2000;
  int64_t threads = AvailableCpus();
  int64_t first_round = 0;
};

struct Totals {
  std::atomic<int64_t> queries{0};
  std::atomic<int64_t> mismatches{0};
  std::atomic<int64_t> neighbours{0};
  int64_t tables = 0;
  int64_t passes = 0;
  int64_t shared_queries = 0;  // in passes of more than one
  int64_t fallbacks = 0;
};

class Checker {
 public:
  explicit Checker(const Options& options) : options_(options) {
    for (int threads = 1; threads <= kMostThreads; ++threads) pools_.push_back(std::make_unique<WorkerPool>(threads));
  }

  // One table and about kQueriesPerTable queries; what is drawn depends on the round alone. At most `most` queries.
  void CheckSmallTable(int64_t round, int64_t most) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    const Dtype dtype = Pick(random, 3) == 0 ? kDtypes[Pick(random, 7)] : Dtype::kF32;
    const auto kind = static_cast<VectorKind>(Pick(random, static_cast<int64_t>(VectorKind::kCount)));
    // A third of the tables of any size, a third small in one or both ways.
    const int64_t dim = 1 + Pick(random, Pick(random, 3) == 0 ? 24 : 128);
    const int64_t num_rows = 1 + Pick(random, Pick(random, 2) == 0 ? 400 : 4096);
    std::vector<float> values = RandomRows(kind, num_rows, dim, random);
    if (Pick(random, 8) == 0) {
      values[static_cast<size_t>(Pick(random, num_rows * dim))] = Pick(random, 2) == 0 ? INFINITY : NAN;
    }
    const std::vector<int64_t> targets = testing::SimdTargets();
    const ScopedSimdTarget scoped(targets[static_cast<size_t>(Pick(random, static_cast<int64_t>(targets.size())))]);
    const std::string where = "round " + std::to_string(round) + " " + std::string(DtypeName(dtype)) + " kind " +
                              std::to_string(static_cast<int>(kind)) + " " + std::to_string(num_rows) + " x " +
                              std::to_string(dim) + " target " + SimdTargetName();
    CheckTable(dtype, dim, std::move(values), where, std::min(most, kQueriesPerTable), random);
  }

  void CheckLargeTable(VectorKind kind, int64_t num_rows, int64_t dim, int64_t queries) {
    if (queries == 0) return;
    std::mt19937_64 random(20261130);
    const std::string where =
        "kind " + std::to_string(static_cast<int>(kind)) + " " + std::to_string(num_rows) + " x " + std::to_string(dim);
    CheckTable(Dtype::kF32, dim, RandomRows(kind, num_rows, dim, random), where, queries, random);
  }

  const Totals& totals() const { return totals_; }

 private:
  void CheckTable(Dtype dtype, int64_t dim, std::vector<float> values, const std::string& where, int64_t queries,
                  std::mt19937_64& random) {
    const auto table = testing::TableOf(dtype, dim, values);
    values = {};
    std::vector<float> widened(static_cast<size_t>(table->num_rows() * dim));
    for (size_t j = 0; j < widened.size(); ++j) {
      widened[j] =
          static_cast<float>(testing::ReferenceElement(ElementTypeOf(dtype), table->rows(), static_cast<int64_t>(j)));
    }
    const ReferenceScan scan(std::move(widened), dim);
    WorkerPool& pool = *pools_[static_cast<size_t>(Pick(random, kMostThreads))];
    const auto index = BuildExactIndex(*table, /*with_codes=*/Pick(random, 4) != 0, pool).value();
    ++totals_.tables;
    while (queries > 0) {
      std::deque<RandomCall> calls;
      const int64_t most_calls = 1 + Pick(random, 8);
      const int64_t most_queries = Pick(random, 2) == 0 ? 64 : 4;
      for (int64_t i = 0; i < most_calls && queries > 0; ++i) {
        const int64_t count = std::min(queries, 1 + Pick(random, most_queries));
        calls.emplace_back(*table, scan, count, random);
        queries -= count;
      }
      CheckCalls(*index, scan, calls, pool, where);
    }
  }

  // All at once, so that they wait for each other and share passes.
  void CheckCalls(const NeighbourIndex& index, const ReferenceScan& scan, const std::deque<RandomCall>& calls,
                  WorkerPool& pool, const std::string& where) {
    std::vector<std::promise<NeighbourResult>> promises(calls.size());
    for (size_t c = 0; c < calls.size(); ++c) {
      index.Start(calls[c].query(), pool, {},
                  [&promise = promises[c]](NeighbourResult found) { promise.set_value(std::move(found)); });
    }
    std::vector<NeighbourResult> results;
    std::vector<std::pair<size_t, size_t>> queries;  // of which call, which
    for (size_t c = 0; c < calls.size(); ++c) {
      const NeighbourResult& result = results.emplace_back(promises[c].get_future().get());
      totals_.fallbacks += result.stats.fallback_queries;
      for (const int64_t in_pass : result.stats.pass_queries) {
        ++totals_.passes;
        totals_.shared_queries += in_pass > 1 ? in_pass : 0;
      }
      for (size_t i = 0; i < calls[c].query().queries.size(); ++i) queries.emplace_back(c, i);
    }
    std::atomic<size_t> next{0};
    const auto check = [&] {
      for (size_t at = next.fetch_add(1); at < queries.size(); at = next.fetch_add(1)) {
        const auto [c, i] = queries[at];
        CheckAnswer(calls[c], i, scan, results[c].neighbours[i], where);
      }
    };
    std::vector<std::thread> threads;
    for (int64_t i = 1; i < options_.threads; ++i) threads.emplace_back(check);
    check();
    for (std::thread& thread : threads) thread.join();
  }

  void CheckAnswer(const RandomCall& call, size_t i, const ReferenceScan& scan, const std::vector<Neighbour>& got,
                   const std::string& where) {
    const NeighbourQuery& query = call.query();
    const std::vector<Neighbour> want = scan.Closest(
        query.metric, scan.Scores(query.metric, call.vector(i)), query.k,
        [&](int64_t id) { return call.MayFind(i, id); }, query.threshold);
    totals_.queries.fetch_add(1);
    totals_.neighbours.fetch_add(static_cast<int64_t>(want.size()));
    if (Bits(got) == Bits(want)) return;
    if (totals_.mismatches.fetch_add(1) >= kShownMismatches) return;
    std::fprintf(stderr, "MISMATCH: %s query %zu %s: %zu found, %zu wanted\n", where.c_str(), i, call.Text().c_str(),
                 got.size(), want.size());
  }

  const Options options_;
  std::vector<std::unique_ptr<WorkerPool>> pools_;  // of 1 to kMostThreads threads
  Totals totals_;
};

int Main(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Checker checker(options);
  for (int64_t round = options.first_round; checker.totals().queries < options.queries; ++round) {
    checker.CheckSmallTable(round, options.queries - checker.totals().queries);
  }
  const int64_t share = options.large / 3;
  checker.CheckLargeTable(VectorKind::kGaussian, 50257, 768, share);
  checker.CheckLargeTable(VectorKind::kGaussian, 1000000, 128, share);
  checker.CheckLargeTable(VectorKind::kSmallIntegers, 300000, 128, options.large - 2 * share);
  const Totals& totals = checker.totals();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "{\"queries\":%lld,\"mismatches\":%lld,\"neighbours\":%lld,\"tables\":%lld,\"passes\":%lld,"
      "\"shared_queries\":%lld,\"fallbacks\":%lld,\"seconds\":%.1f}\n",
      static_cast<long long>(totals.queries.load()), static_cast<long long>(totals.mismatches.load()),
      static_cast<long long>(totals.neighbours.load()), static_cast<long long>(totals.tables),
      static_cast<long long>(totals.passes), static_cast<long long>(totals.shared_queries),
      static_cast<long long>(totals.fallbacks), seconds.count());
  return totals.mismatches > 0 ? 1 : 0;
}

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  embedding::bench::Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const long long value = i + 1 < argc ? std::atoll(argv[i + 1]) : -1;
    int64_t* const of_flag = flag == "--queries"       ? &options.queries
                             : flag == "--large"       ? &options.large
                             : flag == "--threads"     ? &options.threads
                             : flag == "--first-round" ? &options.first_round
                                                       : nullptr;
    if (of_flag == nullptr || value < (flag == "--threads" ? 1 : 0)) {
      std::fprintf(stderr, "exact_mismatches: %s is no flag with a number; see the head of exact_mismatches.cc\n",
                   flag.c_str());
      return 2;
    }
    *of_flag = value;
  }
  return embedding::bench::Main(options);
}
