// A cgroup tree as files below a folder of its own, removed at the end.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace embedding::testing {

class CgroupTree {
 public:
  // name: no other test's. files: path below the root, and text.
  CgroupTree(const std::string& name, const std::vector<std::pair<std::string, std::string>>& files)
      : root_(std::filesystem::path(::testing::TempDir()) / name) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    for (const auto& [path, text] : files) {
      std::filesystem::create_directories((root_ / path).parent_path());
      std::ofstream(root_ / path) << text;
    }
  }
  ~CgroupTree() { std::filesystem::remove_all(root_); }
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  std::string root() const { return root_.string(); }

 private:
  const std::filesystem::path root_;
};

}  // namespace embedding::testing
