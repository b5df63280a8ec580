#include "server/table/private_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/table/table_memory.h"

namespace embedding {
namespace {

absl::Status NoMemory(size_t size, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for ", size, " bytes of rows: ", std::generic_category().message(error)));
}

// Piece by piece: while the system takes memory away, it lets no other thread map any, and GiBs take it a while.
void Unmap(std::byte* memory, size_t size) {
  constexpr size_t kPiece = size_t{32} << 20;
  for (size_t at = 0; at < size; at += kPiece) munmap(memory + at, std::min(kPiece, size - at));
}

}  // namespace

absl::StatusOr<std::shared_ptr<std::byte>> AllocatePrivate(size_t size) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (size > size_t{INT64_MAX}) return NoMemory(size, ENOMEM);
  absl::StatusOr<TableMemoryClaim> claim = TableMemoryClaim::Ask(static_cast<int64_t>(size));
  if (!claim.ok()) return claim.status();
  // mmap aligns to 4 KiB only: map one huge page more than needed, and give back what sticks out on both sides.
  size_t mapped_size = 0;
  void* mapped = MAP_FAILED;
  if (__builtin_add_overflow(size, kHugePage, &mapped_size)) {
    errno = ENOMEM;
  } else {
    mapped = mmap(nullptr, mapped_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (mapped == MAP_FAILED) {
    return NoMemory(size, errno);
  }
  const uintptr_t begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (begin + kHugePage - 1) & ~(kHugePage - 1);
  constexpr uintptr_t kPage = 4096;
  const uintptr_t end = (aligned + size + kPage - 1) & ~(kPage - 1);
  const uintptr_t mapped_end = (begin + mapped_size + kPage - 1) & ~(kPage - 1);
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (mapped_end > end) munmap(reinterpret_cast<void*>(end), mapped_end - end);
  // Advice only: without transparent huge pages the rows are as right, just slower to scan.
  (void)madvise(reinterpret_cast<void*>(aligned), end - aligned, MADV_HUGEPAGE);
  const size_t kept = end - aligned;
  const auto held = std::make_shared<TableMemoryClaim>(*std::move(claim));
  return std::shared_ptr<std::byte>(reinterpret_cast<std::byte*>(aligned),
                                    [kept, held](std::byte* memory) { Unmap(memory, kept); });
}

}  // namespace embedding
