// Exact search and what it is compared with, in one process, one command at a time, so that a driver can time them in
// turns with peers in other processes.
//
//   search_bench ROWS_FILE NUM_ROWS DIM QUERIES_FILE NUM_QUERIES [THREADS]
//
// Both files are raw little-endian F32. Prints "ready" and the name of the kernels that OpenBLAS chose, then answers
// each line of stdin with a line of JSON that holds "seconds":
//   search FIRST COUNT K     neighbours by dot product of queries [FIRST, FIRST + COUNT); also "ids", per query, and
//                            "survivors": rows that the codes left to be scored, of all queries together
//   sgemm FIRST COUNT K ROWS a textbook scan: OpenBLAS sgemm over blocks of so many rows, the best k kept per query
//   read                     one sum over all words of the float32 rows, by as many threads
//   read_codes               the same over as many bytes as a search reads: the codes, and three floats for each row
//   build_codes              coding all rows
#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/exec/cpu_count.h"
#include "server/search/exact_index.h"
#include "server/search/row_codes.h"
#include "tests/bench/raw_table.h"
#include "tests/server/search/search_testing.h"
#include "tests/server/search/wide_read.h"

extern "C" void openblas_set_num_threads(int num_threads);
extern "C" char* openblas_get_corename();

namespace embedding::bench {
namespace {

class Bench {
 public:
  Bench(const std::string& rows_file, int64_t num_rows, int64_t dim, std::vector<float> queries, int threads)
      : queries_(std::move(queries)),
        pool_(threads),
        table_(ReadTable(rows_file, num_rows, dim, pool_)),
        index_(BuildExactIndex(*table_, /*with_codes=*/true, pool_).value()) {
    openblas_set_num_threads(threads);
  }

  double Search(size_t first, size_t count, int64_t k, Ids* ids, int64_t* survivors) {
    NeighbourQuery query;
    query.metric = Metric::kDot;
    query.k = k;
    for (size_t q = first; q < first + count; ++q) query.queries.push_back({Query(q), ElementType::kF32});
    const Clock::time_point start = Clock::now();
    const NeighbourResult result = testing::Search(*index_, std::move(query), pool_);
    const double seconds = SecondsSince(start);
    *survivors = result.stats.rows_rescored;
    AppendIds(result, ids);
    return seconds;
  }

  double Sgemm(size_t first, size_t count, size_t k, int64_t block_rows, Ids* ids) {
    const auto dim = static_cast<int>(table_->dim());
    const Clock::time_point start = Clock::now();
    std::vector<float> scores(static_cast<size_t>(block_rows) * count);
    std::vector<std::vector<std::pair<float, int64_t>>> best(count);
    std::vector<float> least(count, -INFINITY);
    constexpr int64_t kStride = 64;
    const auto closer = [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    for (int64_t begin = 0; begin < table_->num_rows(); begin += block_rows) {
      const int64_t rows = std::min(block_rows, table_->num_rows() - begin);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(count), static_cast<int>(rows), dim, 1.0f,
                  Query(first), dim, reinterpret_cast<const float*>(table_->row(begin)), dim, 0.0f, scores.data(),
                  static_cast<int>(rows));
      pool_.RunAndWait(pool_.num_threads(), [&](int lane) {
        for (auto q = static_cast<size_t>(lane); q < count; q += static_cast<size_t>(pool_.num_threads())) {
          const float* of_query = scores.data() + q * static_cast<size_t>(rows);
          for (int64_t from = 0; from < rows; from += kStride) {
            const int64_t to = std::min(rows, from + kStride);
            // Without branches, which compilers turn into vectors: nearly all rows end here.
            int reach = 0;
            for (int64_t i = from; i < to; ++i) reach += of_query[i] >= least[q] ? 1 : 0;
            if (reach == 0) continue;
            for (int64_t i = from; i < to; ++i) {
              if (of_query[i] < least[q]) continue;
              best[q].emplace_back(of_query[i], begin + i);
              if (best[q].size() < 2 * k + 64) continue;
              std::nth_element(best[q].begin(), best[q].begin() + static_cast<ptrdiff_t>(k - 1), best[q].end(), closer);
              best[q].resize(k);
              least[q] = best[q][k - 1].first;
            }
          }
        }
      });
    }
    for (auto& of_query : best) {
      std::sort(of_query.begin(), of_query.end(), closer);
      of_query.resize(std::min(of_query.size(), k));
    }
    const double seconds = SecondsSince(start);
    for (const auto& of_query : best) {
      ids->emplace_back();
      for (const auto& entry : of_query) ids->back().push_back(entry.second);
    }
    return seconds;
  }

  double Read(size_t size) {
    constexpr size_t kBlock = size_t{1} << 18;
    std::atomic<size_t> next{0};
    std::atomic<uint64_t> sum{0};
    const Clock::time_point start = Clock::now();
    pool_.RunAndWait(pool_.num_threads(), [&](int) {
      uint64_t own = 0;
      for (;;) {
        const size_t at = next.fetch_add(kBlock, std::memory_order_relaxed);
        if (at >= size) break;
        own += testing::SumWords(table_->rows() + at, std::min(kBlock, size - at));
      }
      sum.fetch_add(own);
    });
    return SecondsSince(start);
  }

  double BuildCodes() {
    const RowNorms norms = ComputeRowNorms(*table_, pool_);
    const Clock::time_point start = Clock::now();
    if (!BuildRowCodes(*table_, norms, pool_).ok()) Die("no memory for codes");
    return SecondsSince(start);
  }

  size_t row_bytes() const { return static_cast<size_t>(table_->size_bytes()); }
  size_t code_bytes() const {
    return row_bytes() / sizeof(float) + 3 * sizeof(float) * static_cast<size_t>(table_->num_rows());
  }
  size_t num_queries() const { return queries_.size() / static_cast<size_t>(table_->dim()); }

 private:
  const float* Query(size_t q) const { return queries_.data() + q * static_cast<size_t>(table_->dim()); }

  const std::vector<float> queries_;
  WorkerPool pool_;
  const std::unique_ptr<EmbeddingTable> table_;
  const std::unique_ptr<NeighbourIndex> index_;
};

int Main(Bench& bench) {
  Say("ready %s", openblas_get_corename());
  for (std::string command; std::cin >> command;) {
    Ids ids;
    int64_t survivors = 0;
    double seconds = 0;
    if (command == "read") {
      seconds = bench.Read(bench.row_bytes());
    } else if (command == "read_codes") {
      seconds = bench.Read(bench.code_bytes());
    } else if (command == "build_codes") {
      seconds = bench.BuildCodes();
    } else if (command == "search" || command == "sgemm") {
      const auto first = NextNumber<size_t>(0);
      const auto count = NextNumber<size_t>(1);
      const auto k = NextNumber<size_t>(1);
      if (first + count > bench.num_queries()) Die("bad command");
      seconds = command == "search" ? bench.Search(first, count, static_cast<int64_t>(k), &ids, &survivors)
                                    : bench.Sgemm(first, count, k, NextNumber<int64_t>(1), &ids);
    } else {
      Die("unknown command " + command);
    }
    Say("{\"seconds\":%.9f,\"survivors\":%lld,\"ids\":%s}", seconds, static_cast<long long>(survivors),
        ListOf(ids).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: search_bench ROWS_FILE NUM_ROWS DIM QUERIES_FILE NUM_QUERIES [THREADS]\n");
    return 2;
  }
  const int64_t dim = std::atoll(argv[3]);
  embedding::bench::Bench bench(argv[1], std::atoll(argv[2]), dim,
                                embedding::bench::ReadVectors(argv[4], std::atoll(argv[5]), dim),
                                argc > 6 ? std::atoi(argv[6]) : embedding::AvailableCpus());
  return embedding::bench::Main(bench);
}
