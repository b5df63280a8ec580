// The command line of embedding-loadtest.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/loadtest/runner.h"
#include "client/loadtest/threshold.h"
#include "client/loadtest/workload.h"

namespace embedding::loadtest {

struct LoadTestOptions {
  std::string address = "127.0.0.1:50051";
  WorkloadOptions workload;
  RunPlan plan;
  int connections = 1;
  std::chrono::milliseconds deadline{5000};
  bool json = false;        // the report on stdout is JSON, not text
  std::string report_path;  // where a JSON report goes too; "-" = stdout; empty = nowhere
  bool verify = false;
  std::vector<Threshold> thresholds;
  // Every option that has an effect, with its value, as flags: what to type to repeat the run.
  std::vector<std::pair<std::string, std::string>> effective;
};

// Either options, or the end of the program: text for stdout (help, version) or stderr (one line), and the exit code.
struct ParsedOptions {
  std::optional<LoadTestOptions> options;
  int exit_code = 0;
  std::string out;
  std::string err;
};

// arguments: without the program's name. Reads EMBEDDING_ADDRESS. Refuses (exit code 2) values out of range and options
// that would have no effect beside the others. No exception leaves it.
ParsedOptions ParseOptions(const std::vector<std::string>& arguments);

// "5s", "1.5ms", "200us", "2m" -> nanoseconds, >= 0; false when it is none or over 24 hours.
bool ParseDuration(const std::string& text, int64_t* nanoseconds);

}  // namespace embedding::loadtest
