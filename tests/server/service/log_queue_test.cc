#include "server/service/log_queue.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kLong{30000};
constexpr std::chrono::milliseconds kShort{20};

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(fds_.data(), O_CLOEXEC), 0); }
  ~Pipe() {
    CloseReader();
    close(fds_[1]);
  }
  int writer() const { return fds_[1]; }
  // Until nothing more fits, so that a further write would wait for a reader.
  size_t Fill() const {
    const int flags = fcntl(fds_[1], F_GETFL);
    fcntl(fds_[1], F_SETFL, flags | O_NONBLOCK);
    size_t filled = 0;
    for (ssize_t n = 0; (n = write(fds_[1], "................", 16)) > 0;) filled += static_cast<size_t>(n);
    fcntl(fds_[1], F_SETFL, flags);
    return filled;
  }
  std::string Read(size_t most) const {
    std::string text(most, '\0');
    const ssize_t n = read(fds_[0], text.data(), text.size());
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }
  std::string ReadUntil(const std::string& end) const {
    std::string text;
    while (text.find(end) == std::string::npos) {
      const std::string more = Read(65536);
      if (more.empty()) break;
      text += more;
    }
    return text;
  }
  void CloseReader() {
    if (fds_[0] != -1) close(fds_[0]);
    fds_[0] = -1;
  }

 private:
  std::array<int, 2> fds_{-1, -1};
};

std::string Notice(int64_t dropped) { return "dropped " + std::to_string(dropped) + "\n"; }

TEST(LogQueueTest, WritesLinesInOrder) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), 1 << 20, Notice, nullptr);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    queue.Push(std::to_string(i) + "\n");
    expected += std::to_string(i) + "\n";
  }
  EXPECT_TRUE(queue.Flush(kLong));
  EXPECT_EQ(pipe.ReadUntil("999\n"), expected);
}

TEST(LogQueueTest, WritesALineLongerThanThePipe) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), 1 << 20, Notice, nullptr);
  const std::string line = std::string(300000, 'x') + "\n";
  queue.Push(line);
  EXPECT_EQ(pipe.ReadUntil("\n"), line);
}

TEST(LogQueueTest, FullPipeHoldsUpNobodyAndEveryLineIsWrittenOrCounted) {
  Pipe pipe;
  const size_t filled = pipe.Fill();
  std::atomic<int64_t> dropped{0};
  LogQueue queue(pipe.writer(), 4096, Notice, [&](int64_t lines) { dropped += lines; });
  constexpr int kThreads = 4;
  constexpr int kLines = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kLines; ++i) queue.Push("line of 20 letters.\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(dropped, 0);
  EXPECT_FALSE(queue.Flush(kShort)) << "nothing can be written yet";

  EXPECT_EQ(pipe.Read(filled).size(), filled);
  queue.Push("last\n");
  const std::string text = pipe.ReadUntil("last\n");
  EXPECT_TRUE(queue.Flush(kLong));
  int64_t written = 0;
  int64_t told = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (line.starts_with("dropped ")) {
      told += std::stoll(line.substr(8));
    } else {
      ++written;
    }
  }
  EXPECT_EQ(told, dropped);
  EXPECT_EQ(written + dropped, kThreads * kLines + 1);
}

TEST(LogQueueTest, DropsTheOldestLines) {
  Pipe pipe;
  const size_t filled = pipe.Fill();
  LogQueue queue(pipe.writer(), 100, Notice, nullptr);
  for (int i = 0; i < 10000; ++i) queue.Push("line " + std::to_string(i) + "\n");
  pipe.Read(filled);
  EXPECT_THAT(pipe.ReadUntil("line 9999\n"), HasSubstr("line 9998\nline 9999\n"));
}

TEST(LogQueueTest, EndsWhileThePipeIsFull) {
  Pipe pipe;
  pipe.Fill();
  LogQueue queue(pipe.writer(), 4096, Notice, nullptr);
  queue.Push("never read\n");
  EXPECT_FALSE(queue.Flush(kShort));
}

TEST(LogQueueTest, PipeWithoutAReaderIsNoEnd) {
  ASSERT_NE(signal(SIGPIPE, SIG_DFL), SIG_ERR);
  Pipe pipe;
  pipe.CloseReader();
  std::atomic<int64_t> dropped{0};
  LogQueue queue(pipe.writer(), 4096, Notice, [&](int64_t lines) { dropped += lines; });
  queue.Push("lost\n");
  EXPECT_TRUE(queue.Flush(kLong));
  EXPECT_EQ(dropped, 1);
}

TEST(LogQueueTest, ClosedDescriptorIsNoEnd) {
  const int fd = dup(STDERR_FILENO);
  std::atomic<int64_t> dropped{0};
  LogQueue queue(fd, 4096, Notice, [&](int64_t lines) { dropped += lines; });
  close(fd);
  queue.Push("lost\n");
  EXPECT_TRUE(queue.Flush(kLong));
  EXPECT_EQ(dropped, 1);
}

}  // namespace
}  // namespace embedding
