// A file opened once and read at offsets.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace embedding {

// A regular file behind one descriptor: the path is looked up once, so a rename over it cannot mix two files. Symbolic
// links are followed, since deployments swap them. Messages do not name the path: WithPath() of quote.h does.
// ReadAt and CheckUnchanged may be called concurrently.
class SourceFile {
 public:
  // As pread(2): bytes read, 0 at the end of the file, -1 with errno.
  using ReadFunction = std::function<ssize_t(int descriptor, void* to, size_t count, off_t offset)>;

  // DATA_LOSS at once, with the errno text where there is one, for a path that cannot be opened or is no regular file:
  // a folder, FIFO, socket or device is never waited for. `read` stands in for pread in tests.
  static absl::StatusOr<SourceFile> Open(const std::string& path, ReadFunction read = {});

  // As Open, for a plain name in an open folder; a symbolic link is refused, as the name was taken from a file.
  static absl::StatusOr<SourceFile> OpenAt(int folder, const std::string& name, ReadFunction read = {});

  SourceFile(SourceFile&& other) noexcept;
  SourceFile& operator=(SourceFile&& other) noexcept;
  ~SourceFile();

  // As it was when opened.
  uint64_t size() const { return static_cast<uint64_t>(opened_.st_size); }

  // Reads the `count` bytes at `offset`, however many reads that takes. DATA_LOSS names the offset and the errno text,
  // or says that the file became shorter.
  absl::Status ReadAt(uint64_t offset, size_t count, void* to) const;

  // DATA_LOSS `changed while being read` if size, modification time, inode or device differ from those when opened.
  // (Not the change time: a rename over the file changes that, but none of the bytes behind the descriptor.)
  absl::Status CheckUnchanged() const;

 private:
  SourceFile(int descriptor, const struct stat& opened, ReadFunction read);

  // What a descriptor just opened is; descriptor < 0: errno tells why there is none.
  static absl::StatusOr<SourceFile> OfDescriptor(int descriptor, ReadFunction read);

  int descriptor_ = -1;
  struct stat opened_ = {};
  ReadFunction read_;
};

// A folder that is looked up once, and the files in it. Thread-safe.
class SourceFolder {
 public:
  // The folder that holds the file of a path. DATA_LOSS with the errno text.
  static absl::StatusOr<SourceFolder> OfFile(const std::string& path);

  SourceFolder(SourceFolder&& other) noexcept;
  SourceFolder& operator=(SourceFolder&& other) noexcept;
  ~SourceFolder();

  // As given, with the slash at its end; empty for the working directory.
  const std::string& path() const { return path_; }

  // See SourceFile::OpenAt.
  absl::StatusOr<SourceFile> Open(const std::string& name) const { return SourceFile::OpenAt(descriptor_, name); }

 private:
  SourceFolder(std::string path, int descriptor);

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace embedding
