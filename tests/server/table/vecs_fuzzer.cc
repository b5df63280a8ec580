// Feeds a file's bytes to the readers of .fbin, .f16bin, .u8bin, .i8bin, .fvecs and .bvecs, and what they accept to the
// loader of rows. The seed corpus lies in corpus/vecs.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "server/exec/worker_pool.h"
#include "server/table/load_rows.h"
#include "server/table/source_file.h"
#include "server/table/vecs.h"

namespace {

using namespace embedding;

// The rows must be those of the bytes, widths taken out; a width that is not dim must have been refused.
void CheckRows(const uint8_t* data, size_t size, const RowLayout& layout, const absl::StatusOr<LoadedRows>& rows) {
  const size_t row_bytes = static_cast<size_t>(layout.dim) * DtypeSize(layout.dtype);
  const size_t stride = row_bytes + (layout.has_row_widths ? kVecsWidthBytes : 0);
  if (layout.offset + static_cast<size_t>(layout.num_rows) * stride != size) abort();
  bool one_width = true;
  for (size_t row = 0; row < static_cast<size_t>(layout.num_rows); ++row) {
    const uint8_t* at = data + layout.offset + row * stride;
    if (layout.has_row_widths) {
      int32_t width = 0;
      std::memcpy(&width, at, sizeof(width));
      if (width != layout.dim) one_width = false;
      at += kVecsWidthBytes;
    }
    if (rows.ok() && std::memcmp(rows->bytes.get() + row * row_bytes, at, row_bytes) != 0) abort();
  }
  if (rows.ok() != one_width) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static WorkerPool* const pool = new WorkerPool(1);
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const TableFormat format : {TableFormat::kFbin, TableFormat::kF16bin, TableFormat::kU8bin, TableFormat::kI8bin,
                                   TableFormat::kFvecs, TableFormat::kBvecs}) {
    // A short head, too, so that widths are left to the loader.
    for (const size_t head : {size_t{8}, size_t{4096}}) {
      const absl::StatusOr<RowLayout> layout = ParseVecs(format, bytes.substr(0, head), size, {});
      if (!layout.ok()) continue;
      const auto read = [&](int, void* to, size_t count, off_t offset) -> ssize_t {
        const auto from = static_cast<size_t>(offset);
        if (from >= size) return 0;
        const size_t available = std::min(count, size - from);
        std::memcpy(to, data + from, available);
        return static_cast<ssize_t>(available);
      };
      const int descriptor = memfd_create("vecs", 0);
      if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(size)) != 0) abort();
      absl::StatusOr<SourceFile> file = SourceFile::Open("/proc/self/fd/" + std::to_string(descriptor), read);
      if (!file.ok()) abort();
      CheckRows(data, size, *layout, LoadRows(*file, *layout, /*allow_non_finite=*/true, *pool, {}));
      close(descriptor);
    }
  }
  return 0;
}
