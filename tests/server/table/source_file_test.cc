#include "server/table/source_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SourceFileTest, ReadsAtAnyOffset) {
  const TempFolder folder;
  absl::StatusOr<SourceFile> file = SourceFile::Open(folder.Write("f", "0123456789"));
  ASSERT_THAT(file, Succeeds());
  EXPECT_EQ(file->size(), 10u);
  char bytes[4];
  ASSERT_THAT(file->ReadAt(6, 4, bytes), Succeeds());
  EXPECT_EQ(std::string(bytes, 4), "6789");
  EXPECT_THAT(file->CheckUnchanged(), Succeeds());
}

TEST(SourceFileTest, FollowsTheLinkThatWasGiven) {
  const TempFolder folder;
  folder.Write("f", "abc");
  std::filesystem::create_symlink("f", folder.Path("link"));
  EXPECT_THAT(SourceFile::Open(folder.Path("link")), Succeeds());
}

// Each would hang or be served as noise by a reader that just opens and reads.
TEST(SourceFileTest, RefusesWhatIsNoRegularFile) {
  const TempFolder folder;
  EXPECT_THAT(SourceFile::Open(folder.Path("none")), Fails(kDataLoss, "cannot be opened: No such file or directory"));
  EXPECT_THAT(SourceFile::Open(""), Fails(kDataLoss, "cannot be opened: No such file or directory"));
  EXPECT_THAT(SourceFile::Open(std::string("a\0b", 3)), Fails(kDataLoss, HasSubstr("NUL")));
  EXPECT_THAT(SourceFile::Open(folder.Path("")), Fails(kDataLoss, "is a directory, not a regular file"));
  EXPECT_THAT(SourceFile::Open("/dev/zero"), Fails(kDataLoss, "is a character device, not a regular file"));

  ASSERT_EQ(mkfifo(folder.Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(SourceFile::Open(folder.Path("fifo")), Fails(kDataLoss, "is a FIFO, not a regular file"));

  std::filesystem::create_symlink("nowhere", folder.Path("dangling"));
  EXPECT_THAT(SourceFile::Open(folder.Path("dangling")), Fails(kDataLoss, HasSubstr("No such file or directory")));
  std::filesystem::create_symlink("circular", folder.Path("circular"));
  EXPECT_THAT(SourceFile::Open(folder.Path("circular")),
              Fails(kDataLoss, HasSubstr("Too many levels of symbolic links")));

  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder.Path("socket");
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::copy(path.begin(), path.end(), address.sun_path);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(SourceFile::Open(path), Fails(kDataLoss, AllOf(HasSubstr("not a regular file (a socket"),
                                                             HasSubstr("No such device or address"))));
  close(listener);
}

TEST(SourceFileTest, SaysThatPermissionIsMissing) {
  const TempFolder folder;
  const std::string path = folder.Write("f", "x");
  ASSERT_EQ(chmod(folder.Path("").c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Permissions do not bind root, so that the test is somebody else meanwhile.
  const uid_t me = geteuid();
  constexpr uid_t kNobody = 65534;
  if (me == 0) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  EXPECT_THAT(SourceFile::Open(path), Fails(kDataLoss, "cannot be opened: Permission denied"));
  ASSERT_EQ(seteuid(me), 0);
}

TEST(SourceFileTest, ShortAndInterruptedReadsAreContinued) {
  const TempFolder folder;
  int calls = 0;
  absl::StatusOr<SourceFile> file = SourceFile::Open(
      folder.Write("f", "0123456789"), [&calls](int descriptor, void* to, size_t count, off_t offset) -> ssize_t {
        if (++calls % 2 == 0) {
          errno = EINTR;
          return -1;
        }
        return pread(descriptor, to, std::min<size_t>(count, 3), offset);
      });
  ASSERT_THAT(file, Succeeds());
  char bytes[10];
  ASSERT_THAT(file->ReadAt(0, 10, bytes), Succeeds());
  EXPECT_EQ(std::string(bytes, 10), "0123456789");
  EXPECT_EQ(calls, 7);  // 3 + 3 + 3 + 1 bytes, an interruption after each of the first three
}

TEST(SourceFileTest, ReadErrorsNameTheOffset) {
  const TempFolder folder;
  absl::StatusOr<SourceFile> file = SourceFile::Open(
      folder.Write("f", "0123456789"), [](int descriptor, void* to, size_t count, off_t offset) -> ssize_t {
        if (offset >= 4) {
          errno = EIO;
          return -1;
        }
        return pread(descriptor, to, std::min<size_t>(count, 4), offset);
      });
  ASSERT_THAT(file, Succeeds());
  char bytes[10];
  EXPECT_THAT(file->ReadAt(0, 10, bytes), Fails(kDataLoss, "read error at byte 4: Input/output error"));
}

TEST(SourceFileTest, NoticesThatTheFileChanged) {
  const TempFolder folder;
  const std::string path = folder.Write("f", "0123456789");
  absl::StatusOr<SourceFile> file = SourceFile::Open(path);
  ASSERT_THAT(file, Succeeds());

  std::filesystem::resize_file(path, 12);
  EXPECT_THAT(file->CheckUnchanged(), Fails(kDataLoss, "changed while being read: it had 10 bytes, now 12"));
  std::filesystem::resize_file(path, 4);
  char bytes[10];
  EXPECT_THAT(
      file->ReadAt(0, 10, bytes),
      Fails(kDataLoss, "changed while being read: the file ends at byte 4, it had 10 bytes when it was opened"));
  std::filesystem::resize_file(path, 10);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_THAT(file->CheckUnchanged(), Fails(kDataLoss, "changed while being read: its modification time moved"));
}

TEST(SourceFileTest, ARenameOverThePathChangesNothing) {
  const TempFolder folder;
  const std::string path = folder.Write("f", "old bytes");
  absl::StatusOr<SourceFile> file = SourceFile::Open(path);
  ASSERT_THAT(file, Succeeds());
  std::filesystem::rename(folder.Write("g", "new bytes"), path);
  char bytes[9];
  ASSERT_THAT(file->ReadAt(0, 9, bytes), Succeeds());
  EXPECT_EQ(std::string(bytes, 9), "old bytes");
  EXPECT_THAT(file->CheckUnchanged(), Succeeds());
}

}  // namespace
}  // namespace embedding
