#include "server/service/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace embedding {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Fields 14, 15, 20, 22, 23 and 24 of /proc/self/stat: proc(5).
void ReadStat(ProcessUsage& usage) {
  const std::string text = ReadAll("/proc/self/stat");
  // Field 2 is the command's name in brackets and may hold anything, brackets and blanks too.
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return;
  std::istringstream fields(text.substr(after_name + 1));
  std::string skipped;
  double utime = 0, stime = 0, threads = 0, start = 0, vsize = 0, rss = 0;
  for (int field = 3; field <= 13; ++field) fields >> skipped;
  fields >> utime >> stime;
  for (int field = 16; field <= 19; ++field) fields >> skipped;
  fields >> threads >> skipped >> start >> vsize >> rss;
  if (!fields) return;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  usage.cpu_seconds = (utime + stime) / ticks;
  usage.threads = threads;
  usage.virtual_bytes = vsize;
  usage.resident_bytes = rss * static_cast<double>(sysconf(_SC_PAGESIZE));

  std::istringstream stat(ReadAll("/proc/stat"));
  for (std::string line; std::getline(stat, line);) {
    double boot_time = 0;
    if (std::istringstream words(line); words >> skipped >> boot_time && skipped == "btime") {
      usage.start_time_seconds = boot_time + start / ticks;
    }
  }
}

std::optional<double> CountOpenFds() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  int64_t count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return static_cast<double>(count - 1);  // without the one that lists them
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  ReadStat(usage);
  usage.open_fds = CountOpenFds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.max_fds = static_cast<double>(limit.rlim_cur);
  return usage;
}

}  // namespace embedding
