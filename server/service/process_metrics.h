// What /proc/self tells of this process.
#pragma once

#include <optional>

namespace embedding {

// A value that cannot be read (no /proc) is absent.
struct ProcessUsage {
  std::optional<double> cpu_seconds;
  std::optional<double> resident_bytes;
  std::optional<double> virtual_bytes;
  std::optional<double> open_fds;
  std::optional<double> max_fds;
  std::optional<double> start_time_seconds;  // since the Unix epoch
  std::optional<double> threads;
};

// Thread-safe. Reads three small files and lists one folder.
ProcessUsage ReadProcessUsage();

}  // namespace embedding
