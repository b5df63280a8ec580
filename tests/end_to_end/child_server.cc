#include "tests/end_to_end/child_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace embedding::testing {
namespace {

constexpr std::chrono::seconds kPatience{60};

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
    read_end = fds[0];
    write_end = fds[1];
  }
};

pid_t Spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, int out, int err) {
  std::vector<std::string> words = {EMBEDDING_SERVER_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment;
  for (const char* kept : {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(kept)) variables.push_back(absl::StrCat(kept, "=", value));
  }
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = -1;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0) std::abort();
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(count));
  close(fd);
  return text;
}

int ExitCode(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

bool Names(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& argument) { return absl::StartsWith(argument, flag); });
}

// The value of a field in a log line: "grpc=127.0.0.1:1" -> "127.0.0.1:1".
std::string Field(const std::string& line, const std::string& name) {
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    if (absl::StartsWith(word, name + "=")) return std::string(word.substr(name.size() + 1));
  }
  return "";
}

}  // namespace

RunResult RunServer(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  Pipe out, err;
  const pid_t pid = Spawn(arguments, environment, out.write_end, err.write_end);
  close(out.write_end);
  close(err.write_end);
  RunResult result;
  std::thread errors([&] { result.errors = ReadAll(err.read_end); });
  result.output = ReadAll(out.read_end);
  errors.join();
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = ExitCode(status);
  return result;
}

std::string SampleTable() { return "words=" EMBEDDING_SAMPLE_DIR "/words.safetensors,vocab=words.vocab.txt"; }

ScratchFolder::ScratchFolder() {
  std::string name = std::filesystem::temp_directory_path() / "embedding-process-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

ScratchFolder::~ScratchFolder() { std::filesystem::remove_all(path_); }

std::string ScratchFolder::SparseFile(const std::string& name, int64_t size) const {
  TextFile(name, "");
  std::filesystem::resize_file(Path(name), static_cast<uintmax_t>(size));
  return Path(name);
}

std::string ScratchFolder::TextFile(const std::string& name, const std::string& text) const {
  std::ofstream(Path(name), std::ios::binary) << text;
  return Path(name);
}

ChildServer::ChildServer(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  for (const char* flag : {"--grpc-address", "--admin-address"}) {
    if (!Names(arguments, flag)) arguments.push_back(absl::StrCat(flag, "=127.0.0.1:0"));
  }
  Pipe err;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  pid_ = Spawn(arguments, environment, nowhere, err.write_end);
  close(nowhere);
  close(err.write_end);
  reader_ = std::thread([this, fd = err.read_end] { ReadErrors(fd); });
}

ChildServer::~ChildServer() {
  if (!waited_) {
    kill(pid_, SIGKILL);
    Wait();
  }
  reader_.join();
}

void ChildServer::ReadErrors(int fd) {
  FILE* file = fdopen(fd, "r");
  char* line = nullptr;
  size_t capacity = 0;
  for (ssize_t size; (size = getline(&line, &capacity, file)) > 0;) {
    MutexLock lock(&mutex_);
    lines_.emplace_back(line, static_cast<size_t>(line[size - 1] == '\n' ? size - 1 : size));
    changed_.SignalAll();
  }
  std::free(line);
  std::fclose(file);
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.SignalAll();
}

std::string ChildServer::AwaitLine(const std::string& text) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(&mutex_);
  for (size_t next = 0;;) {
    for (; next < lines_.size(); ++next) {
      if (absl::StrContains(lines_[next], text)) return lines_[next];
    }
    if (closed_ || std::chrono::steady_clock::now() >= until) return "";
    changed_.WaitUntil(&mutex_, until);
  }
}

std::string ChildServer::grpc_address() { return Field(AwaitLine(" listening "), "grpc"); }
std::string ChildServer::admin_url() { return Field(AwaitLine(" listening "), "admin"); }

std::string ChildServer::AdminPage(const std::string& path, int* status) {
  if (status != nullptr) *status = 0;
  const std::string url = admin_url();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port = 0;
  std::string authority = url.substr(0, url.size() - (absl::EndsWith(url, "/") ? 1 : 0));
  if (!absl::SimpleAtoi(authority.substr(authority.rfind(':') + 1), &port)) return "";
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
      answer = ReadAll(dup(fd));
    }
  }
  close(fd);
  const std::pair<std::string, std::string> parts = absl::StrSplit(answer, absl::MaxSplits("\r\n\r\n", 1));
  const std::vector<std::string> head = absl::StrSplit(parts.first, ' ');
  if (status != nullptr && head.size() > 1) static_cast<void>(absl::SimpleAtoi(head[1], status));
  return parts.second;
}

double ChildServer::MetricValue(const std::string& series) {
  for (const absl::string_view line : absl::StrSplit(AdminPage("/metrics"), '\n')) {
    double value = 0;
    if (absl::StartsWith(line, series) && absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) return value;
  }
  return -1;
}

bool ChildServer::AwaitMetric(const std::string& series, double value) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (MetricValue(series) != value) {
    if (std::chrono::steady_clock::now() >= until) return false;
  }
  return true;
}

void ChildServer::Signal(int signal) { kill(pid_, signal); }

int ChildServer::Wait() {
  if (waited_) return exit_code_;
  {
    // Its stderr closes with its end.
    const auto until = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(&mutex_);
    while (!closed_ && std::chrono::steady_clock::now() < until) changed_.WaitUntil(&mutex_, until);
    if (!closed_) kill(pid_, SIGKILL);
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  waited_ = true;
  exit_code_ = ExitCode(status);
  return exit_code_;
}

std::vector<std::string> ChildServer::Lines() {
  MutexLock lock(&mutex_);
  return lines_;
}

}  // namespace embedding::testing
