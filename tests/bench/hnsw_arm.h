// The commands that both arms of the approximate searches answer, so that one driver can time them in turns.
//
//   PROGRAM ROWS_FILE NUM_ROWS DIM QUERIES_FILE NUM_QUERIES M EF_CONSTRUCTION THREADS
//
// Both files are raw little-endian F32, rows of length 1. Prints "ready", then answers each line of stdin with a line
// of JSON that holds "seconds":
//   build                building the graph anew; the searches that follow use it
//   search EFFORT K      all queries once, by all threads; also "ids", per query
//   run EFFORT K SECONDS the same for at least so long; also "queries", how many
//   per_call N           of an arm that takes several queries a call: so many from now on, instead of all it can
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace embedding::bench {

using Ids = std::vector<std::vector<int64_t>>;

[[noreturn]] inline void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline void ReadFile(const std::string& path, char* to, size_t size) {
  std::ifstream file(path, std::ios::binary);
  if (!file.read(to, static_cast<std::streamsize>(size)) || file.peek() != EOF) Die(path + " has another size");
}

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
  if (argc != 9) {
    Die(std::string("usage: ") + argv[0] +
        " ROWS_FILE NUM_ROWS DIM QUERIES_FILE NUM_QUERIES M EF_CONSTRUCTION THREADS");
  }
  HnswArguments arguments;
  arguments.rows_file = argv[1];
  arguments.num_rows = std::atoll(argv[2]);
  arguments.dim = std::atoll(argv[3]);
  arguments.queries.resize(static_cast<size_t>(std::atoll(argv[5]) * arguments.dim));
  ReadFile(argv[4], reinterpret_cast<char*>(arguments.queries.data()), arguments.queries.size() * sizeof(float));
  arguments.m = std::atoi(argv[6]);
  arguments.ef_construction = std::atoi(argv[7]);
  arguments.threads = std::atoi(argv[8]);
  return arguments;
}

// Arm: Build(); Search(effort, k, ids), of which ids may be null.
template <class Arm>
int AnswerCommands(Arm& arm, size_t num_queries) {
  std::printf("ready\n");
  std::fflush(stdout);
  std::string command;
  while (std::cin >> command) {
    size_t effort = 0, k = 0;
    double least = 0;
    if (command == "per_call") {
      size_t count = 0;
      if (!(std::cin >> count) || count < 1) Die("bad command");
      if constexpr (requires { arm.SetQueriesPerCall(count); }) arm.SetQueriesPerCall(count);
      std::printf("{\"seconds\":0}\n");
      std::fflush(stdout);
      continue;
    }
    if (command != "build" && !(std::cin >> effort >> k)) Die("bad command");
    if (command == "run" && !(std::cin >> least)) Die("bad command");
    const auto start = std::chrono::steady_clock::now();
    if (command == "build") {
      arm.Build();
      std::printf("{\"seconds\":%.9f}\n", SecondsSince(start));
    } else if (command == "run") {
      size_t queries = 0;
      do {
        arm.Search(effort, k, nullptr);
        queries += num_queries;
      } while (SecondsSince(start) < least);
      std::printf("{\"seconds\":%.9f,\"queries\":%zu}\n", SecondsSince(start), queries);
    } else if (command == "search") {
      Ids ids;
      arm.Search(effort, k, &ids);
      std::string list;
      for (const auto& of_query : ids) {
        list += list.empty() ? "[" : ",[";
        for (size_t i = 0; i < of_query.size(); ++i) list.append(i == 0 ? "" : ",").append(std::to_string(of_query[i]));
        list += "]";
      }
      std::printf("{\"seconds\":%.9f,\"ids\":[%s]}\n", SecondsSince(start), list.c_str());
    } else {
      Die("unknown command " + command);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace embedding::bench
