// Feeds JSON to the vocabulary reader, and checks that keys and rows find each other. The first byte sets the policy
// and the rows of the table. The seed corpus lies in corpus/json_vocabulary.
#include <cstdint>
#include <cstdlib>

#include "server/table/json_vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding;
  if (size == 0) return 0;
  const KeyPolicy policy = {.skip_invalid = data[0] % 2 == 1, .first_keeps = data[0] / 2 % 2 == 1};
  const int64_t num_rows = 1 + data[0] / 4;
  const absl::StatusOr<std::unique_ptr<const Vocabulary>> vocabulary =
      ParseJsonVocabulary(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), num_rows, policy);
  if (!vocabulary.ok()) return 0;
  if ((*vocabulary)->num_rows() != num_rows) abort();
  int64_t without_key = 0;
  for (int64_t row = 0; row < num_rows; ++row) {
    const absl::string_view key = (*vocabulary)->KeyOf(row);
    if (key.empty()) {
      ++without_key;
    } else if ((*vocabulary)->Find(key) != row) {
      abort();
    }
  }
  if (without_key != (*vocabulary)->rows_without_key()) abort();
  return 0;
}
