#include "server/exec/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/exec/cgroup.h"

namespace embedding {

int64_t MemoryLimitFrom(const std::string& cgroup_root, absl::string_view proc_self_cgroup, int64_t machine_bytes) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t smallest = machine_bytes > 0 ? machine_bytes : kNone;
  for (const CgroupFolder& folder : CgroupFolders(cgroup_root, proc_self_cgroup, "memory")) {
    const char* file = folder.version == 2 ? "memory.max" : "memory.limit_in_bytes";
    int64_t limit = 0;
    // "max" is no limit; of version 1 a number that no machine has.
    if (absl::SimpleAtoi(FirstLine(absl::StrCat(folder.path, "/", file)), &limit) && limit > 0) {
      smallest = std::min(smallest, limit);
    }
  }
  // What version 1 says for none: the largest multiple of a page.
  return smallest >= kNone - (int64_t{1} << 20) ? 0 : smallest;
}

int64_t MemoryLimit() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return MemoryLimitFrom("/sys/fs/cgroup", ProcSelfCgroup(), pages > 0 && page_bytes > 0 ? pages * page_bytes : 0);
}

}  // namespace embedding
