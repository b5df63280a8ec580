// How much memory this process may take.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace embedding {

// The smallest of the machine's memory and the limits of the process's cgroup (v2 memory.max of every level up to the
// root, v1 memory.limit_in_bytes), in bytes; 0 if nothing is known.
int64_t MemoryLimit();

// The same from given files, for tests; see cgroup.h. machine_bytes: 0 if not known.
int64_t MemoryLimitFrom(const std::string& cgroup_root, absl::string_view proc_self_cgroup, int64_t machine_bytes);

}  // namespace embedding
