#include "server/exec/cpu_count.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/server/exec/cgroup_tree.h"

namespace embedding {
namespace {

// A cgroup tree as files. Formats: Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (v1)
// of the Linux kernel.
struct Case {
  const char* name;
  std::vector<std::pair<std::string, std::string>> files;  // below the root
  const char* proc_self_cgroup;
  int affinity;
  int want;
};

class CpuCountTest : public ::testing::TestWithParam<Case> {};

TEST_P(CpuCountTest, TakesTheSmallestBound) {
  const testing::CgroupTree tree("cpu_count_" + std::string(GetParam().name), GetParam().files);
  EXPECT_EQ(AvailableCpusFrom(tree.root(), GetParam().proc_self_cgroup, GetParam().affinity), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CpuCountTest,
    ::testing::Values(
        Case{"NoFiles", {}, "0::/\n", 8, 8}, Case{"EmptyText", {}, "", 3, 3},
        Case{"NoQuota", {{"a/cpu.max", "max 100000\n"}}, "0::/a\n", 8, 8},
        Case{"WholeCpus", {{"a/cpu.max", "200000 100000\n"}}, "0::/a\n", 8, 2},
        Case{"PartOfACpuIsRoundedUp", {{"a/cpu.max", "150000 100000\n"}}, "0::/a\n", 8, 2},
        Case{"AtLeastOne", {{"a/cpu.max", "10000 100000\n"}}, "0::/a\n", 8, 1},
        Case{"AffinityIsSmaller", {{"a/cpu.max", "400000 100000\n"}}, "0::/a\n", 2, 2},
        Case{"ParentIsSmaller", {{"a/b/cpu.max", "max 100000\n"}, {"a/cpu.max", "300000 100000\n"}}, "0::/a/b\n", 8, 3},
        Case{"ContainerSeesItsQuotaAtTheRoot", {{"cpu.max", "100000 100000\n"}}, "0::/\n", 8, 1},
        Case{"PathOfTheHostIsNotThere", {{"cpu.max", "100000 50000\n"}}, "0::/docker/0123\n", 8, 2},
        Case{"PathOutsideOfTheNamespace", {{"cpu.max", "100000 50000\n"}}, "0::/../other\n", 8, 2},
        Case{"GarbageIsNoQuota", {{"a/cpu.max", "many few\n"}}, "0::/a\n", 8, 8},
        Case{"ZeroPeriodIsNoQuota", {{"a/cpu.max", "100000 0\n"}}, "0::/a\n", 8, 8},
        Case{"Version1",
             {{"cpu/a/cpu.cfs_quota_us", "250000\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
             "4:memory:/a\n3:cpu,cpuacct:/a\n0::/\n",
             8,
             3},
        Case{"Version1JointMount",
             {{"cpu,cpuacct/cpu.cfs_quota_us", "100000\n"}, {"cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
             "3:cpu,cpuacct:/docker/0123\n",
             8,
             1},
        Case{"Version1Unlimited",
             {{"cpu/a/cpu.cfs_quota_us", "-1\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
             "3:cpu:/a\n",
             8,
             8},
        Case{"Version1CpusetIsAnotherController",
             {{"cpu/a/cpu.cfs_quota_us", "100000\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
             "3:cpuset:/a\n",
             8,
             8}),
    [](const auto& test) { return test.param.name; });

TEST(CpuCountTest, ThisMachineHasAtLeastOne) { EXPECT_GE(AvailableCpus(), 1); }

}  // namespace
}  // namespace embedding
