// Feeds text to the vocabulary reader with the row count that fits, and checks that keys and rows find each other. The
// seed corpus lies in corpus/vocabulary.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/table/text_vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace embedding;
  if (size == 0) return 0;
  const KeyPolicy policy = {.skip_invalid = data[0] % 2 == 1, .first_keeps = data[0] / 2 % 2 == 1};
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  int64_t lines = std::count(text.begin(), text.end(), '\n');
  if (!text.empty() && text.back() != '\n') ++lines;
  if (ParseTextVocabulary(text, lines + 1, policy).ok()) abort();
  const absl::StatusOr<std::unique_ptr<const Vocabulary>> vocabulary = ParseTextVocabulary(text, lines, policy);
  if (!vocabulary.ok()) return 0;
  int64_t without_key = 0;
  for (int64_t row = 0; row < lines; ++row) {
    const absl::string_view key = (*vocabulary)->KeyOf(row);
    if (key.empty()) {
      ++without_key;
    } else if ((*vocabulary)->Find(key) != row) {
      abort();
    }
  }
  if (without_key != (*vocabulary)->rows_without_key()) abort();
  const std::vector<int64_t> all = (*vocabulary)->WithPrefix("", lines);
  if (static_cast<int64_t>(all.size()) != lines - without_key) abort();
  for (size_t i = 1; i < all.size(); ++i) {
    if (!((*vocabulary)->KeyOf(all[i - 1]) < (*vocabulary)->KeyOf(all[i]))) abort();
  }
  return 0;
}
