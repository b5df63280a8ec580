// safetensors: u64 header length N (little-endian), N bytes of JSON, then the tensors' bytes without a gap
// (https://github.com/huggingface/safetensors, "Format"; checks as in its safetensors/src/tensor.rs, and stricter).
//
// Beyond the reference: a key that appears twice in any object is refused (parsers differ on which one wins; keys
// compare after unescaping), nesting stops at 16 levels, a rank above 8 is refused. As in the reference: JSON white
// space around the header object is accepted (writers pad with it), unknown fields of a tensor are ignored. A tensor of
// a dtype unknown here does not stop the load of another one, as long as its range is sound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/row_layout.h"
#include "server/table/source_file.h"

namespace embedding {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
// The reference's limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // as written: may be one that is not known here
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // first byte, from the start of the file
  uint64_t end = 0;    // past the last byte
};

// The header's length N, of the first min(file_size, 8) bytes of a file. DATA_LOSS: the file ends before its header
// does, or N is over the limit.
absl::StatusOr<uint64_t> SafetensorsHeaderBytes(absl::string_view head, uint64_t file_size);

// What a file says of itself: __metadata__, a map of strings.
using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsContent {
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
  SafetensorsMetadata metadata;
};

// The tensors in the order of their bytes. header: the N bytes of JSON (taken by value: the parser pads it in place);
// all checks of the format are made, against the file's size, for every tensor. DATA_LOSS names the tensor, the field,
// its value.
// metadata: if not null, __metadata__ is put there.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensorsHeader(std::string header, uint64_t file_size,
                                                                      SafetensorsMetadata* metadata = nullptr);

// Reads and parses the header of an open file. DATA_LOSS as the two above, and read errors.
absl::StatusOr<SafetensorsContent> ReadSafetensorsHeader(const SourceFile& file);

// Whether a tensor has the rank and a dtype of a table.
bool MayBeTable(const SafetensorsTensor& tensor);

// Whether its elements have 8 bits; needs MayBeTable.
bool IsOfBytes(const SafetensorsTensor& tensor);

// Where in `tensors` the table is: the one of that name, or, if name is empty, the only 2-D one of F32, F16, BF16 or
// F64; where there is none of those, the only 2-D one of 8 bits (I8, U8, F8_E4M3, F8_E5M2). A tensor of 8 bits beside
// one of floats is rather its quantised twin, a mask or its codes: it is never chosen without its name. DATA_LOSS: no
// such tensor, or several (at most 10 candidates are listed with dtype and shape), another dtype or rank.
absl::StatusOr<size_t> FindTable(const std::vector<SafetensorsTensor>& tensors, absl::string_view name);

// The rows of a tensor that FindTable found. DATA_LOSS: a table over the limits.
absl::StatusOr<RowLayout> TableLayout(const SafetensorsTensor& tensor, const TableLimits& limits);

// FindTable and TableLayout.
absl::StatusOr<RowLayout> SelectTable(const std::vector<SafetensorsTensor>& tensors, absl::string_view name,
                                      const TableLimits& limits);

}  // namespace embedding
