// Feeds bytes to the word2vec reader; what it reads is written again and must be read as the same. The seed corpus lies
// in corpus/word2vec.
#include <cstdint>
#include <cstring>

#include "server/table/word2vec.h"
#include "tests/server/table/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding;
  if (size == 0) return 0;
  const KeyPolicy policy = {.skip_invalid = data[0] % 2 == 1};
  const SourceFile file = FuzzFile(reinterpret_cast<const char*>(data) + 1, size - 1);
  const absl::StatusOr<KeyedRows> rows = ReadWord2vec(file, {}, policy, {});
  if (!rows.ok()) return 0;
  const size_t row_bytes = static_cast<size_t>(rows->dim) * sizeof(float);
  if (static_cast<size_t>(rows->num_rows) * row_bytes + rows->keys.size() > size) abort();
  std::string again = std::to_string(rows->num_rows) + " " + std::to_string(rows->dim) + "\n";
  for (size_t i = 0; i < static_cast<size_t>(rows->num_rows); ++i) {
    again += rows->keys.substr(rows->key_ends[i], rows->key_ends[i + 1] - rows->key_ends[i]) + " ";
    again.append(reinterpret_cast<const char*>(rows->rows.get()) + i * row_bytes, row_bytes);
    again += "\n";
  }
  const SourceFile copy = FuzzFile(again.data(), again.size());
  const absl::StatusOr<KeyedRows> second = ReadWord2vec(copy, {}, policy, {});
  if (!second.ok() || second->keys != rows->keys || second->key_ends != rows->key_ends) abort();
  if (std::memcmp(second->rows.get(), rows->rows.get(), static_cast<size_t>(rows->num_rows) * row_bytes) != 0) abort();
  return 0;
}
