#include "server/table/keyed_rows.h"

#include <simdjson.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/table/key_index.h"
#include "server/table/quote.h"

namespace embedding {

std::string KeyFault(absl::string_view key) {
  constexpr absl::string_view kSkip = " (invalid-keys=skip leaves such rows without key)";
  if (key.empty()) return absl::StrCat("has an empty key", kSkip);
  if (key.size() > kMaxKeyBytes) {
    return absl::StrCat("has a key of ", key.size(), " bytes, a key has at most ", kMaxKeyBytes);
  }
  if (key.find('\0') != absl::string_view::npos) return absl::StrCat("key ", Quoted(key), " holds a NUL", kSkip);
  if (!simdjson::validate_utf8(key.data(), key.size())) {
    return absl::StrCat("key ", Quoted(key), " is not valid UTF-8", kSkip);
  }
  return "";
}

absl::StatusOr<std::unique_ptr<const Vocabulary>> TakeKeys(KeyedRows* rows, absl::string_view place, int64_t first,
                                                           KeyPolicy policy) {
  if (rows->num_rows > KeyIndex::kMaxRows) {
    return absl::DataLossError(
        absl::StrCat("table has ", rows->num_rows, " rows, keys are held for at most ", KeyIndex::kMaxRows));
  }
  KeyIndex::Duplicate duplicate;
  std::unique_ptr<const KeyIndex> index =
      KeyIndex::Create(std::move(rows->keys), std::move(rows->key_ends), &duplicate, policy.first_keeps);
  if (index == nullptr) {
    return absl::DataLossError(absl::StrCat(place, " ", duplicate.second_row + first, " repeats the key of ", place,
                                            " ", duplicate.first_row + first, ": ", Quoted(duplicate.key),
                                            " (duplicate-keys=first leaves it to the first row)"));
  }
  return index;
}

}  // namespace embedding
