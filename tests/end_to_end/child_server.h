// The server's binary as a child process, for tests.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/exec/mutex.h"

namespace embedding::testing {

struct RunResult {
  int exit_code = -1;  // 128 + N if signal N ended it
  std::string output;  // stdout
  std::string errors;  // stderr
};

// environment: "NAME=value", beside PATH and without any EMBEDDING_ variable of the test's own. Waits for the end.
RunResult RunServer(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

// "words=<the sample>,vocab=words.vocab.txt".
std::string SampleTable();

// A folder of its own, removed with everything in it at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  // A file of `size` zero bytes that takes no room on the disk.
  std::string SparseFile(const std::string& name, int64_t size) const;
  std::string TextFile(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// Runs until it is told to end; killed with the object if it still runs.
class ChildServer {
 public:
  // Adds --grpc-address and --admin-address with port 0 unless the arguments name others.
  explicit ChildServer(std::vector<std::string> arguments, const std::vector<std::string>& environment = {});
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  // Waits for a line on stderr that holds the text; gives the line, or "" when the process ended or a minute went by.
  std::string AwaitLine(const std::string& text);
  // Where it listens, from its log; waits for that line.
  std::string grpc_address();
  std::string admin_url();
  // The page at a path of the admin port, such as "/metrics"; status 0 when nobody answers.
  std::string AdminPage(const std::string& path, int* status = nullptr);
  // The value of the metric whose line begins with `series`; -1 when there is none.
  double MetricValue(const std::string& series);
  // Asks until it has the value; false when a minute went by.
  bool AwaitMetric(const std::string& series, double value);

  void Signal(int signal);
  // Waits for the end; the exit code, 128 + N if signal N ended it, -1 when a minute went by.
  int Wait();
  // All lines of stderr so far.
  std::vector<std::string> Lines();

 private:
  void ReadErrors(int fd);

  pid_t pid_ = -1;
  int exit_code_ = -1;
  bool waited_ = false;
  std::thread reader_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace embedding::testing
