#include "server/table/private_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

TEST(PrivateMemoryTest, IsAlignedZeroedAndWritableToItsLastByte) {
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{2} << 20, (size_t{2} << 20) + 1}) {
    absl::StatusOr<std::shared_ptr<std::byte>> memory = AllocatePrivate(size);
    ASSERT_THAT(memory, Succeeds());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->get()) % (size_t{2} << 20), 0u);
    EXPECT_EQ(memory->get()[size - 1], std::byte{0});
    std::memset(memory->get(), 7, size);
    EXPECT_EQ(memory->get()[size - 1], std::byte{7});
  }
}

TEST(PrivateMemoryTest, SizesThatNoMachineHasAreAnError) {
  for (const size_t size : {SIZE_MAX, SIZE_MAX - (size_t{2} << 20), size_t{1} << 60}) {
    EXPECT_THAT(AllocatePrivate(size),
                Fails(absl::StatusCode::kResourceExhausted,
                      "no memory for " + std::to_string(size) + " bytes of rows: Cannot allocate memory"));
  }
}

}  // namespace
}  // namespace embedding
