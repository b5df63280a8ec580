#include "server/exec/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace embedding {
namespace {

// mount and mount + path, and every folder between them.
void AddLevels(int version, const std::string& mount, absl::string_view path, std::vector<CgroupFolder>* folders) {
  std::string level(path);
  while (!level.empty() && level.back() == '/') level.pop_back();
  if (absl::StrContains(level, "..")) level.clear();  // a group outside of our namespace: only the root is ours
  folders->push_back({version, mount});
  while (!level.empty()) {
    folders->push_back({version, mount + level});
    level.resize(level.find_last_of('/') == std::string::npos ? 0 : level.find_last_of('/'));
  }
}

}  // namespace

std::vector<CgroupFolder> CgroupFolders(const std::string& cgroup_root, absl::string_view proc_self_cgroup,
                                        absl::string_view controller) {
  std::vector<CgroupFolder> folders;
  for (absl::string_view line : absl::StrSplit(proc_self_cgroup, '\n')) {
    // "HIERARCHY:CONTROLLERS:PATH"; version 2 has hierarchy 0 and no controllers.
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      AddLevels(2, cgroup_root, parts[2], &folders);
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) continue;
    // The controllers are mounted together under their joint name, with the single one a link to it where the system
    // made one.
    AddLevels(1, absl::StrCat(cgroup_root, "/", controller), parts[2], &folders);
    if (parts[1] != controller) AddLevels(1, absl::StrCat(cgroup_root, "/", parts[1]), parts[2], &folders);
  }
  return folders;
}

std::string ProcSelfCgroup() {
  std::ifstream file("/proc/self/cgroup");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace embedding
