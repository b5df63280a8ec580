// Feeds a file's bytes to the reader of .npy. The seed corpus lies in corpus/npy.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "server/table/npy.h"

namespace {

void CheckInside(const absl::StatusOr<embedding::RowLayout>& table, size_t size) {
  if (!table.ok()) return;
  uint64_t row_bytes = 0;
  if (!embedding::RowBytesInFile(static_cast<uint64_t>(table->num_rows), static_cast<uint64_t>(table->dim),
                                 table->dtype, &row_bytes) ||
      row_bytes == 0 || table->offset > size || row_bytes != size - table->offset) {
    abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckInside(ParseNpy(bytes.substr(0, kNpyHeadBytes), size, {}), size);
  return 0;
}
