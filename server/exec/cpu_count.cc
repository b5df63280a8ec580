#include "server/exec/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace embedding {
namespace {

// First line of a small file; empty if it cannot be read.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// quota / period in CPUs; infinity unless both are positive numbers. "max" and "-1" mean no quota.
double QuotaOf(absl::string_view quota, absl::string_view period) {
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!absl::SimpleAtoi(quota, &quota_us) || !absl::SimpleAtoi(period, &period_us)) return INFINITY;
  if (quota_us <= 0 || period_us <= 0) return INFINITY;
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

// cgroup v2: cpu.max holds "QUOTA PERIOD".
double QuotaV2(const std::string& folder) {
  const std::string line = FirstLine(absl::StrCat(folder, "/cpu.max"));
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  return words.size() == 2 ? QuotaOf(words[0], words[1]) : INFINITY;
}

double QuotaV1(const std::string& folder) {
  return QuotaOf(FirstLine(absl::StrCat(folder, "/cpu.cfs_quota_us")),
                 FirstLine(absl::StrCat(folder, "/cpu.cfs_period_us")));
}

// The smallest quota of root + path and of every folder above it, down to root itself. Folders that do not exist set no
// limit: inside a container the path is often the host's, and the container's own group is mounted at the root.
double SmallestQuota(const std::string& root, absl::string_view path, double (*quota_of)(const std::string&)) {
  std::string level(path);
  while (!level.empty() && level.back() == '/') level.pop_back();
  if (absl::StrContains(level, "..")) level.clear();  // a group outside of our namespace: only the root is ours
  double smallest = quota_of(root);
  while (!level.empty()) {
    smallest = std::min(smallest, quota_of(root + level));
    level.resize(level.find_last_of('/') == std::string::npos ? 0 : level.find_last_of('/'));
  }
  return smallest;
}

}  // namespace

int AvailableCpusFrom(const std::string& cgroup_root, absl::string_view proc_self_cgroup, int affinity_count) {
  double quota = INFINITY;
  for (absl::string_view line : absl::StrSplit(proc_self_cgroup, '\n')) {
    // "HIERARCHY:CONTROLLERS:PATH"; version 2 has hierarchy 0 and no controllers.
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      quota = std::min(quota, SmallestQuota(cgroup_root, parts[2], QuotaV2));
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) continue;
    // The controllers are mounted together under their joint name, with "cpu" a link to it where the system made one.
    for (absl::string_view mount : {absl::string_view("cpu"), parts[1]}) {
      quota = std::min(quota, SmallestQuota(absl::StrCat(cgroup_root, "/", mount), parts[2], QuotaV1));
    }
  }
  const double cpus = std::min(std::ceil(quota), static_cast<double>(affinity_count));
  return std::max(1, static_cast<int>(cpus));
}

int AvailableCpus() {
  // Sized by the kernel's answer: a machine may have more CPUs than cpu_set_t has bits.
  int affinity = 0;
  for (int bits = CPU_SETSIZE; affinity == 0 && bits <= (1 << 20); bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(bits));
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(bits));
    if (sched_getaffinity(0, size, set) == 0) affinity = CPU_COUNT_S(size, set);
    CPU_FREE(set);
  }
  if (affinity == 0) affinity = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::ifstream file("/proc/self/cgroup");
  std::stringstream text;
  text << file.rdbuf();
  return AvailableCpusFrom("/sys/fs/cgroup", text.str(), affinity);
}

}  // namespace embedding
