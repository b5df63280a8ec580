// The commands that both arms of the approximate searches answer, so that one driver can time them in turns.
//
//   PROGRAM ROWS_FILE NUM_ROWS DIM QUERIES_FILE NUM_QUERIES M EF_CONSTRUCTION THREADS
//
// Both files are raw little-endian F32, rows of length 1. Prints "ready", then answers each line of stdin with a line
// of JSON that holds "seconds":
//   build                building the graph anew; the searches that follow use it
//   search EFFORT K      all queries once, by all threads; also "ids", per query
//   run EFFORT K SECONDS the same for at least so long; also "queries", how many
//   per_call N           only of an arm that takes several queries a call: so many from now on, instead of all it can
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tests/bench/bench_program.h"

namespace embedding::bench {

struct HnswArguments {
  std::string rows_file;
  int64_t num_rows = 0;
  int64_t dim = 0;
  std::vector<float> queries;  // [num_queries, dim]
  int m = 0;
  int ef_construction = 0;
  int threads = 0;

  size_t num_queries() const { return queries.size() / static_cast<size_t>(dim); }
};

inline HnswArguments ParseHnswArguments(int argc, char** argv) {
  if (argc != 9) Die("usage: ROWS_FILE NUM_ROWS DIM QUERIES_FILE NUM_QUERIES M EF_CONSTRUCTION THREADS");
  HnswArguments arguments;
  arguments.rows_file = argv[1];
  arguments.num_rows = std::atoll(argv[2]);
  arguments.dim = std::atoll(argv[3]);
  arguments.queries = ReadVectors(argv[4], std::atoll(argv[5]), arguments.dim);
  arguments.m = std::atoi(argv[6]);
  arguments.ef_construction = std::atoi(argv[7]);
  arguments.threads = std::atoi(argv[8]);
  return arguments;
}

// Arm: made of HnswArguments, which outlive it; Build(); Search(effort, k, ids), of which ids may be null; where it has
// one, SetQueriesPerCall(count).
template <class Arm>
int RunHnswArm(int argc, char** argv) {
  const HnswArguments arguments = ParseHnswArguments(argc, argv);
  Arm arm(arguments);
  constexpr bool kTakesSeveral = requires { arm.SetQueriesPerCall(size_t{1}); };
  Say("ready");
  for (std::string command; std::cin >> command;) {
    if (command == "build") {
      const Clock::time_point start = Clock::now();
      arm.Build();
      Say("{\"seconds\":%.9f}", SecondsSince(start));
    } else if (command == "search") {
      const auto effort = NextNumber<size_t>(0);
      const auto k = NextNumber<size_t>(1);
      Ids ids;
      const Clock::time_point start = Clock::now();
      arm.Search(effort, k, &ids);
      const double seconds = SecondsSince(start);
      Say("{\"seconds\":%.9f,\"ids\":%s}", seconds, ListOf(ids).c_str());
    } else if (command == "run") {
      const auto effort = NextNumber<size_t>(0);
      const auto k = NextNumber<size_t>(1);
      const auto least = NextNumber<double>(0);
      const Clock::time_point start = Clock::now();
      size_t queries = 0;
      do {
        arm.Search(effort, k, nullptr);
        queries += arguments.num_queries();
      } while (SecondsSince(start) < least);
      Say("{\"seconds\":%.9f,\"queries\":%zu}", SecondsSince(start), queries);
    } else if (kTakesSeveral && command == "per_call") {
      if constexpr (kTakesSeveral) arm.SetQueriesPerCall(NextNumber<size_t>(1));
      Say("{\"seconds\":0}");
    } else {
      Die("unknown command " + command);
    }
  }
  return 0;
}

}  // namespace embedding::bench
