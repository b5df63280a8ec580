// Where the system keeps the bounds of the process's control groups.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace embedding {

struct CgroupFolder {
  int version = 2;   // 1 or 2: the files in it differ
  std::string path;  // such as "/sys/fs/cgroup/system.slice"; need not exist
};

// The folders whose bounds hold for the process: its group of a controller ("cpu", "memory") and all above it, of both
// versions. Inside a container the group's path is often the host's, and the container's own group is mounted at the
// root, which is why a folder may not exist. cgroup_root: such as "/sys/fs/cgroup"; proc_self_cgroup: the text of
// /proc/self/cgroup.
std::vector<CgroupFolder> CgroupFolders(const std::string& cgroup_root, absl::string_view proc_self_cgroup,
                                        absl::string_view controller);

// The text of /proc/self/cgroup.
std::string ProcSelfCgroup();

// First line of a small file; empty if it cannot be read.
std::string FirstLine(const std::string& path);

}  // namespace embedding
