#include "server/table/vecs.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

constexpr size_t kFbinHeaderBytes = 8;
constexpr uint64_t kElementBytes = 4;

uint32_t U32At(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

}  // namespace

bool FbinSizeAgrees(absl::string_view head, uint64_t file_size) {
  if (head.size() < kFbinHeaderBytes) return false;
  const uint64_t num_rows = U32At(head, 0);
  const uint64_t dim = U32At(head, 4);
  uint64_t bytes = 0;
  return num_rows >= 1 && dim >= 1 && RowBytesInFile(num_rows, dim, Dtype::kF32, &bytes) &&
         bytes == file_size - kFbinHeaderBytes;
}

bool LooksLikeFvecs(absl::string_view head, uint64_t file_size) {
  if (head.size() < 4) return false;
  const uint64_t dim = U32At(head, 0);
  if (dim == 0 || dim > 0x7FFFFFFF) return false;
  const uint64_t row_bytes = 4 + kElementBytes * dim;
  // Of one row alone the width would be the only witness.
  if (file_size % row_bytes != 0 || file_size == row_bytes) return false;
  return head.size() < row_bytes + 4 || U32At(head, row_bytes) == dim;
}

absl::StatusOr<RowLayout> ParseFbin(absl::string_view head, uint64_t file_size, const TableLimits& limits) {
  if (file_size < kFbinHeaderBytes || head.size() < kFbinHeaderBytes) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", an .fbin header needs 8"));
  }
  const uint64_t num_rows = U32At(head, 0);
  const uint64_t dim = U32At(head, 4);
  if (!FbinSizeAgrees(head, file_size)) {
    if (LooksLikeFvecs(head, file_size)) {
      return absl::DataLossError(absl::StrCat("file is an .fvecs file (each row begins with its width, here ", num_rows,
                                              "), not .fbin: convert it to .fbin or .npy"));
    }
    uint64_t needed = 0;
    if (num_rows >= 1 && dim >= 1) {
      if (!RowBytesInFile(num_rows, dim, Dtype::kF32, &needed) ||
          __builtin_add_overflow(needed, uint64_t{kFbinHeaderBytes}, &needed)) {
        return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", its .fbin header promises ",
                                                num_rows, " rows of width ", dim, ", more than any file holds"));
      }
      return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", its .fbin header promises ", num_rows,
                                              " rows of width ", dim, ", which end at byte ", needed));
    }
  }
  if (absl::Status status = CheckTableSize(num_rows, dim, limits); !status.ok()) return status;
  return RowLayout{.dtype = Dtype::kF32,
                   .num_rows = static_cast<int64_t>(num_rows),
                   .dim = static_cast<int64_t>(dim),
                   .offset = kFbinHeaderBytes};
}

}  // namespace embedding
