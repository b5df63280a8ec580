#include "server/table/source_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

// O_NONBLOCK: opening a FIFO without a writer would hang. O_NOCTTY: a terminal must not become ours.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// strerror is not thread-safe and strerror_r comes in two shapes; the standard library hides both.
std::string ErrnoText(int error) { return std::generic_category().message(error); }

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a FIFO";
  if (S_ISCHR(mode)) return "is a character device";
  if (S_ISBLK(mode)) return "is a block device";
  if (S_ISSOCK(mode)) return "is a socket";
  return "is of an unknown kind";
}

}  // namespace

absl::StatusOr<SourceFile> SourceFile::Open(const std::string& path, ReadFunction read) {
  if (path.find('\0') != std::string::npos) return absl::DataLossError("cannot be opened: the path holds a NUL");
  int descriptor = -1;
  do {
    descriptor = open(path.c_str(), kOpenFlags);
  } while (descriptor < 0 && errno == EINTR);
  return OfDescriptor(descriptor, std::move(read));
}

absl::StatusOr<SourceFile> SourceFile::OpenAt(int folder, const std::string& name, ReadFunction read) {
  if (name.find('\0') != std::string::npos || name.find('/') != std::string::npos || name == "..") {
    return absl::DataLossError("cannot be opened: it is not the plain name of a file");
  }
  int descriptor = -1;
  do {
    descriptor = openat(folder, name.c_str(), kOpenFlags | O_NOFOLLOW);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0 && errno == ELOOP) {
    return absl::DataLossError(
        "is a symbolic link, which is not followed where a file gives the name: put the file itself there");
  }
  return OfDescriptor(descriptor, std::move(read));
}

absl::StatusOr<SourceFile> SourceFile::OfDescriptor(int descriptor, ReadFunction read) {
  if (descriptor < 0) {
    const int error = errno;
    // open(2) gives ENXIO for a socket, and for a device that nothing drives.
    const char* hint = error == ENXIO ? "not a regular file (a socket, or a device that is absent): " : "";
    return absl::DataLossError(absl::StrCat("cannot be opened: ", hint, ErrnoText(error)));
  }
  struct stat opened = {};
  if (fstat(descriptor, &opened) != 0) {
    const int error = errno;
    close(descriptor);
    return absl::DataLossError(absl::StrCat("cannot be examined: ", ErrnoText(error)));
  }
  if (!S_ISREG(opened.st_mode)) {
    close(descriptor);
    return absl::DataLossError(absl::StrCat(KindOf(opened.st_mode), ", not a regular file"));
  }
  if (!read) read = [](int fd, void* to, size_t count, off_t offset) { return pread(fd, to, count, offset); };
  return SourceFile(descriptor, opened, std::move(read));
}

SourceFile::SourceFile(int descriptor, const struct stat& opened, ReadFunction read)
    : descriptor_(descriptor), opened_(opened), read_(std::move(read)) {}

SourceFile::SourceFile(SourceFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), opened_(other.opened_), read_(std::move(other.read_)) {}

SourceFile& SourceFile::operator=(SourceFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(opened_, other.opened_);
  std::swap(read_, other.read_);
  return *this;
}

SourceFile::~SourceFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status SourceFile::ReadAt(uint64_t offset, size_t count, void* to) const {
  char* next = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = read_(descriptor_, next, count, static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return absl::DataLossError(absl::StrCat("read error at byte ", offset, ": ", ErrnoText(errno)));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat("changed while being read: the file ends at byte ", offset, ", it had ",
                                              size(), " bytes when it was opened"));
    }
    next += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status SourceFile::CheckUnchanged() const {
  struct stat now = {};
  if (fstat(descriptor_, &now) != 0) return absl::DataLossError(absl::StrCat("cannot be examined: ", ErrnoText(errno)));
  if (now.st_size != opened_.st_size) {
    return absl::DataLossError(
        absl::StrCat("changed while being read: it had ", opened_.st_size, " bytes, now ", now.st_size));
  }
  if (now.st_mtim.tv_sec != opened_.st_mtim.tv_sec || now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec) {
    return absl::DataLossError("changed while being read: its modification time moved");
  }
  if (now.st_ino != opened_.st_ino || now.st_dev != opened_.st_dev) {
    return absl::DataLossError("changed while being read: it is another file now");
  }
  return absl::OkStatus();
}

absl::StatusOr<SourceFolder> SourceFolder::OfFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  int descriptor = -1;
  do {
    descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return absl::DataLossError(absl::StrCat("its folder cannot be opened: ", ErrnoText(errno)));
  return SourceFolder(std::move(folder), descriptor);
}

SourceFolder::SourceFolder(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

SourceFolder::SourceFolder(SourceFolder&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

SourceFolder& SourceFolder::operator=(SourceFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

SourceFolder::~SourceFolder() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace embedding
