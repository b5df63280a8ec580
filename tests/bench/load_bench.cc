// Loading a table and what it is compared with, in one process, one command at a time, so that a driver can time them
// in turns.
//
//   load_bench FILE DIM [THREADS]
//
// FILE: raw little-endian F32, which a driver has read before, so that it lies in the page cache. Prints "ready", then
// answers each line of stdin with a line of JSON that holds "seconds":
//   pread SIZE    reading FILE in pieces of SIZE bytes into fresh memory of the same kind (private, advised to be huge
//                 pages), and nothing else
//   load          LoadRows: the same, with the fingerprint and the scan for zero and non-finite rows
//   index         LoadTable, and what an exact search needs, norms and codes, found out while the rows arrive
//   index_after   the same, found out in passes of their own after the load, first the norms, then the codes
// Timed: from asking for the memory to the last byte. Not timed: giving it back.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "server/exec/cpu_count.h"
#include "server/search/exact_index.h"
#include "server/table/load_rows.h"
#include "server/table/load_table.h"
#include "server/table/private_memory.h"
#include "tests/bench/raw_table.h"

namespace embedding::bench {
namespace {

// Seconds that make() takes; what it gives is destroyed afterwards.
template <typename Make>
double Seconds(Make make) {
  const Clock::time_point start = Clock::now();
  const auto made = make();
  return SecondsSince(start);
}

class Bench {
 public:
  Bench(std::string path, int64_t dim, int threads)
      : path_(std::move(path)), dim_(dim), pool_(threads), file_(ValueOrDie(SourceFile::Open(path_))) {
    num_rows_ = static_cast<int64_t>(file_.size()) / (dim * static_cast<int64_t>(sizeof(float)));
  }

  double Pread(size_t piece) {
    return Seconds([&] {
      std::shared_ptr<std::byte> memory = ValueOrDie(AllocatePrivate(file_.size()));
      std::atomic<size_t> next{0};
      pool_.RunAndWait(pool_.num_threads(), [&](int) {
        for (;;) {
          const size_t at = next.fetch_add(piece);
          if (at >= file_.size()) return;
          const size_t size = std::min(piece, file_.size() - at);
          if (!file_.ReadAt(at, size, memory.get() + at).ok()) Die("cannot read " + path_);
        }
      });
      return memory;
    });
  }

  double Load() {
    const RowLayout layout = {.dtype = Dtype::kF32, .num_rows = num_rows_, .dim = dim_};
    return Seconds([&] { return ValueOrDie(LoadRows(file_, layout, /*allow_non_finite=*/false, pool_, {})); });
  }

  double Index() {
    return Seconds([&] {
      ExactRowsBuilder builder(CodesOption::kOn);
      auto table = ValueOrDie(LoadTable(RawTable(path_, dim_), TableLimits(), pool_, {}, &builder));
      auto index = BuildExactIndex(*table, builder.Take(*table));
      return std::pair(std::move(table), std::move(index));
    });
  }

  double IndexAfter() {
    return Seconds([&] {
      auto table = ValueOrDie(LoadTable(RawTable(path_, dim_), TableLimits(), pool_));
      RowNorms norms = ComputeRowNorms(*table, pool_);
      RowCodes codes = ValueOrDie(BuildRowCodes(*table, norms, pool_));
      auto index = BuildExactIndex(*table, ExactRows{std::move(norms), std::move(codes)});
      return std::pair(std::move(table), std::move(index));
    });
  }

 private:
  const std::string path_;
  const int64_t dim_;
  WorkerPool pool_;
  const SourceFile file_;
  int64_t num_rows_ = 0;
};

int Main(Bench& bench) {
  Say("ready");
  for (std::string command; std::cin >> command;) {
    double seconds = 0;
    if (command == "pread") {
      seconds = bench.Pread(NextNumber<size_t>(1));
    } else if (command == "load") {
      seconds = bench.Load();
    } else if (command == "index") {
      seconds = bench.Index();
    } else if (command == "index_after") {
      seconds = bench.IndexAfter();
    } else {
      Die("unknown command " + command);
    }
    Say("{\"seconds\":%.9f}", seconds);
  }
  return 0;
}

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: load_bench FILE DIM [THREADS]\n");
    return 2;
  }
  embedding::bench::Bench bench(argv[1], std::atoll(argv[2]),
                                argc > 3 ? std::atoi(argv[3]) : embedding::AvailableCpus());
  return embedding::bench::Main(bench);
}
