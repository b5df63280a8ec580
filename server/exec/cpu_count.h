// How many threads this process may keep busy.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace embedding {

// The smaller of the affinity mask's count and the CPU quota of the process's cgroup (v2 cpu.max of every level up to
// the root, v1 cpu.cfs_quota_us / cpu.cfs_period_us), rounded up; at least 1.
int AvailableCpus();

// The same from given files, for tests. cgroup_root: such as "/sys/fs/cgroup"; proc_self_cgroup: the text of
// /proc/self/cgroup; affinity_count >= 1.
int AvailableCpusFrom(const std::string& cgroup_root, absl::string_view proc_self_cgroup, int affinity_count);

}  // namespace embedding
