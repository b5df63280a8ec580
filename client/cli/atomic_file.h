// A file that appears under its name whole, or not at all.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace embedding::cli {

// Writes to a temporary file in the same folder; Commit() flushes it to the disk and renames it. Without Commit() the
// temporary file goes and nothing else has changed. Not thread-safe.
class AtomicFile {
 public:
  // INVALID_ARGUMENT: the path exists and may not be replaced. INTERNAL with the errno text: the temporary file cannot
  // be made.
  static absl::StatusOr<AtomicFile> Create(const std::string& path, bool may_replace);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  // Appends. INTERNAL with the errno text.
  absl::Status Write(const void* bytes, size_t count);

  // fsync, rename, fsync of the folder; once. INVALID_ARGUMENT if another process has made a file of that name
  // meanwhile that may not be replaced. INTERNAL with the errno text.
  absl::Status Commit();

  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, std::string temporary, int descriptor, bool may_replace)
      : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor), may_replace_(may_replace) {}

  std::string path_;
  std::string temporary_;
  int descriptor_;
  bool may_replace_;
};

}  // namespace embedding::cli
