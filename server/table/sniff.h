// What a file really is, told by its bytes.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace embedding {

enum class FileKind : uint8_t {
  kUnknown,
  // Formats that are read.
  kSafetensors,
  kSafetensorsIndex,
  kNpy,
  kFbin,
  kWord2vec,
  kWord2vecText,
  kGlove,
  // Formats that are not.
  kGitLfsPointer,
  kHtml,
  kXml,
  kGzip,
  kZip,
  kNpz,
  kTorchZip,
  kPickle,
  kGguf,
  kHdf5,
  kParquet,
  kFastText,
  kJson,
  // Read where the extension or format= names them: they have no magic.
  kFvecs,
  kBvecs,
};

// Bytes from the start of a file that SniffFile wants to see, where there are so many.
inline constexpr uint64_t kSniffBytes = 4096;

struct Sniffed {
  FileKind kind = FileKind::kUnknown;
  // Six bytes or more agree, so that chance is ruled out even for a file of raw numbers.
  bool certain = false;
};

// head: the first min(file_size, kSniffBytes) bytes.
Sniffed SniffFile(absl::string_view head, uint64_t file_size);

// What a file of this kind is, and what to do about it where it is not read, such as "a git-lfs pointer, not the file
// itself: fetch it with git lfs pull". "of no known format" for kUnknown.
absl::string_view Description(FileKind kind);

}  // namespace embedding
