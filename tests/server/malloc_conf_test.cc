// jemalloc finds the settings that the server brings along: a name that it does not look for would go unnoticed.
#include <gtest/gtest.h>
#include <jemalloc/jemalloc.h>

#include <cstddef>

namespace embedding {
namespace {

template <typename T>
T Setting(const char* name) {
  T value{};
  size_t size = sizeof value;
  EXPECT_EQ(mallctl(name, &value, &size, nullptr, 0), 0) << name;
  return value;
}

TEST(MallocConfTest, IsWhatJemallocWorksBy) {
  EXPECT_TRUE(Setting<bool>("background_thread"));
  EXPECT_EQ(Setting<size_t>("opt.tcache_max"), size_t{1} << 18);
}

}  // namespace
}  // namespace embedding
