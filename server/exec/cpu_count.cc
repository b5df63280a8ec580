#include "server/exec/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/exec/cgroup.h"

namespace embedding {
namespace {

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

}  // namespace

int AvailableCpusFrom(const std::string& cgroup_root, absl::string_view proc_self_cgroup, int affinity_count) {
  double quota = INFINITY;
  for (const CgroupFolder& folder : CgroupFolders(cgroup_root, proc_self_cgroup, "cpu")) {
    quota = std::min(quota, folder.version == 2 ? QuotaV2(folder.path) : QuotaV1(folder.path));
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
  return AvailableCpusFrom("/sys/fs/cgroup", ProcSelfCgroup(), affinity);
}

}  // namespace embedding
