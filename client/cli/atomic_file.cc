#include "client/cli/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/table/quote.h"

namespace embedding::cli {
namespace {

absl::Status Failed(const std::string& path, const char* what) {
  return absl::InternalError(absl::StrCat(EscapedText(path), ": cannot ", what, ": ", std::strerror(errno)));
}

absl::Status Exists(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(EscapedText(path), " exists; --force replaces it"));
}

// As a path that can be opened.
std::string OwnFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path, bool may_replace) {
  if (!may_replace && faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return Exists(path);
  std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return Failed(temporary, "be written");
  return AtomicFile(path, std::move(temporary), descriptor, may_replace);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      descriptor_(std::exchange(other.descriptor_, -1)),
      may_replace_(other.may_replace_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Write(const void* bytes, size_t count) {
  // write(2) moves at most 2 GiB less a page at a time.
  constexpr size_t kMostBytes = size_t{1} << 30;
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = write(descriptor_, at, std::min(count, kMostBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(path_, "be written");
    at += written;
    count -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(descriptor_) != 0) return Failed(path_, "be flushed to the disk");
  // The last moment to lose an I/O error of a network file system.
  if (close(std::exchange(descriptor_, -1)) != 0) return Failed(path_, "be closed");
  int renamed = 0;
  if (may_replace_) {
    renamed = rename(temporary_.c_str(), path_.c_str());
  } else {
    renamed = renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
    // A file system that does not know the flag: the check in Create has to do.
    if (renamed != 0 && (errno == EINVAL || errno == ENOSYS)) renamed = rename(temporary_.c_str(), path_.c_str());
  }
  if (renamed != 0) return errno == EEXIST && !may_replace_ ? Exists(path_) : Failed(path_, "be renamed");
  temporary_.clear();
  const int folder = open(OwnFolder(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    // Not every file system can; the data themselves are safe.
    fsync(folder);
    close(folder);
  }
  return absl::OkStatus();
}

}  // namespace embedding::cli
