#include "server/exec/memory_limit.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/server/exec/cgroup_tree.h"

namespace embedding {
namespace {

// A cgroup tree as files. Formats: Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst of the
// Linux kernel.
struct Case {
  const char* name;
  std::vector<std::pair<std::string, std::string>> files;  // below the root
  const char* proc_self_cgroup;
  int64_t machine;
  int64_t want;
};

class MemoryLimitTest : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryLimitTest, TakesTheSmallestBound) {
  const testing::CgroupTree tree("memory_limit_" + std::string(GetParam().name), GetParam().files);
  EXPECT_EQ(MemoryLimitFrom(tree.root(), GetParam().proc_self_cgroup, GetParam().machine), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, MemoryLimitTest,
    ::testing::Values(
        Case{"NothingIsKnown", {}, "", 0, 0}, Case{"MachineAlone", {}, "0::/a\n", 1000, 1000},
        Case{"NoLimit", {{"a/memory.max", "max\n"}}, "0::/a\n", 1000, 1000},
        Case{"Version2", {{"a/memory.max", "536870912\n"}}, "0::/a\n", int64_t{1} << 35, 536870912},
        Case{"ParentIsSmaller", {{"a/b/memory.max", "900\n"}, {"a/memory.max", "800\n"}}, "0::/a/b\n", 1000, 800},
        Case{"MachineIsSmaller", {{"a/memory.max", "2000\n"}}, "0::/a\n", 1000, 1000},
        Case{"PathOfTheHostIsNotThere", {{"memory.max", "700\n"}}, "0::/docker/0123\n", 1000, 700},
        Case{"Version1", {{"memory/a/memory.limit_in_bytes", "600\n"}}, "4:memory:/a\n0::/\n", 1000, 600},
        // PAGE_COUNTER_MAX pages, as version 1 shows for "none".
        Case{"Version1Unlimited", {{"memory/memory.limit_in_bytes", "9223372036854771712\n"}}, "4:memory:/\n", 0, 0},
        Case{"OtherControllersDoNotCount", {{"memory/a/memory.limit_in_bytes", "600\n"}}, "4:cpu:/a\n", 1000, 1000},
        Case{"GarbageIsNoLimit", {{"a/memory.max", "much\n"}}, "0::/a\n", 1000, 1000}),
    [](const auto& test) { return test.param.name; });

TEST(MemoryLimitTest, ThisMachineHasSome) { EXPECT_GT(MemoryLimit(), int64_t{1} << 20); }

}  // namespace
}  // namespace embedding
