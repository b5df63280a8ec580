// Bytes as a file, for fuzzers of readers that take a SourceFile: one in memory, written anew for each input.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "server/table/source_file.h"

namespace embedding {

// A descriptor of a file with these bytes, valid until the next call.
inline SourceFile FuzzFile(const char* bytes, size_t size) {
  static const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, bytes, size, 0) != static_cast<ssize_t>(size)) {
    abort();
  }
  absl::StatusOr<SourceFile> file = SourceFile::Open("/proc/self/fd/" + std::to_string(descriptor));
  if (!file.ok()) abort();
  return *std::move(file);
}

}  // namespace embedding
