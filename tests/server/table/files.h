// Files and statuses for the tests of this room.
#pragma once

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace embedding {

// A folder of its own, gone at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "table-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string Path(const std::string& name) const { return path_ + "/" + name; }

  // Gives the file's path. A new file each time: ext4 flushes one that is truncated and written again, which costs
  // milliseconds.
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::string path = Path(name);
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The little-endian bytes of numbers.
template <typename T>
std::string Bytes(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

inline std::string U64(uint64_t value) { return Bytes<uint64_t>({value}); }

// A safetensors file of a header and data.
inline std::string Safetensors(const std::string& header, const std::string& data) {
  return U64(header.size()) + header + data;
}

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER_P2(Fails, code, message, "") {
  const absl::Status status = StatusOf(arg);
  *result_listener << "which is " << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

MATCHER(Succeeds, "") {
  const absl::Status status = StatusOf(arg);
  *result_listener << "which is " << status.ToString();
  return status.ok();
}

inline constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
inline constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

}  // namespace embedding
