// How far the loading of a table is: one redrawn line on a terminal, else a log line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace embedding {

// "loading words  45 %  512.0 of 1137.8 MiB  900.1 MiB/s  1 s left".
std::string ProgressText(absl::string_view table, int64_t done_bytes, int64_t total_bytes,
                         std::chrono::nanoseconds elapsed);

// Not thread-safe: told by one thread at a time.
class LoadProgressLine {
 public:
  // Whether stderr is a terminal is asked once, here.
  explicit LoadProgressLine(std::string table);
  // Removes the line from the terminal.
  ~LoadProgressLine();
  LoadProgressLine(const LoadProgressLine&) = delete;
  LoadProgressLine& operator=(const LoadProgressLine&) = delete;

  void Update(int64_t done_bytes, int64_t total_bytes);

 private:
  const std::string table_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
  bool drawn_ = false;
};

}  // namespace embedding
