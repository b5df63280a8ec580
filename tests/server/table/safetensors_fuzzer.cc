// Feeds a file's bytes to the safetensors reader; no file is needed. The seed corpus lies in corpus/safetensors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/table/safetensors.h"
#include "server/table/sniff.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  SniffFile(bytes.substr(0, kSniffBytes), size);
  const absl::StatusOr<uint64_t> length = SafetensorsHeaderBytes(bytes.substr(0, kSniffBytes), size);
  if (!length.ok()) return 0;
  const std::string header(bytes.substr(kSafetensorsLengthBytes, *length));
  const absl::StatusOr<std::vector<SafetensorsTensor>> tensors = ParseSafetensorsHeader(header, size);
  if (!tensors.ok()) return 0;
  uint64_t at = kSafetensorsLengthBytes + *length;
  for (const SafetensorsTensor& tensor : *tensors) {
    if (tensor.begin != at || tensor.end < tensor.begin || tensor.end > size) abort();  // tensors tile the data
    at = tensor.end;
  }
  if (at != size) abort();
  const absl::StatusOr<RowLayout> table = SelectTable(*tensors, "", {});
  if (table.ok()) {
    uint64_t row_bytes = 0;
    if (!RowBytesInFile(static_cast<uint64_t>(table->num_rows), static_cast<uint64_t>(table->dim), table->dtype,
                        &row_bytes) ||
        row_bytes == 0 || table->offset > size || row_bytes > size - table->offset) {
      abort();
    }
  }
  SelectTable(*tensors, "a", {}).status().IgnoreError();
  return 0;
}
