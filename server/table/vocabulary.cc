#include "server/table/vocabulary.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/table/json_vocabulary.h"
#include "server/table/key_index.h"
#include "server/table/quote.h"
#include "server/table/sniff.h"
#include "server/table/source_file.h"
#include "server/table/text_vocabulary.h"

namespace embedding {
namespace {

using absl::string_view;

absl::Status LineError(int64_t row, string_view what) {
  return absl::DataLossError(absl::StrCat("line ", row + 1, " ", what));
}

int64_t CountLines(string_view text) {
  const int64_t ends = std::count(text.begin(), text.end(), '\n');
  return ends + (text.empty() || text.back() == '\n' ? 0 : 1);
}

// Why a line is no key whatever its encoding; OK if it may be one.
absl::Status CheckKey(int64_t row, string_view key) {
  if (key.empty()) return LineError(row, "is empty, a key has at least 1 byte");
  if (key.size() > kMaxKeyBytes) {
    return LineError(row, absl::StrCat("has ", key.size(), " bytes, a key has at most ", kMaxKeyBytes));
  }
  if (std::memchr(key.data(), '\0', key.size()) != nullptr) {
    return LineError(row, absl::StrCat(Quoted(key), " holds a NUL"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Vocabulary>> ParseTextVocabulary(std::string text, int64_t expected_rows,
                                                                      KeyPolicy policy) {
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) {
    return absl::DataLossError("line 1 begins with a byte order mark: save the file as UTF-8 without it");
  }
  if (expected_rows > KeyIndex::kMaxRows) {
    return absl::DataLossError(
        absl::StrCat("table has ", expected_rows, " rows, keys are held for at most ", KeyIndex::kMaxRows));
  }
  if (const int64_t lines = CountLines(text); lines != expected_rows) {
    return absl::DataLossError(
        absl::StrCat("file has ", lines, " keys (one a line), the table has ", expected_rows, " rows"));
  }
  const bool all_utf8 = simdjson::validate_utf8(text.data(), text.size());
  // Keys move to the front of the text, over the line ends, so that no second copy is needed.
  std::vector<uint64_t> offsets;
  offsets.reserve(static_cast<size_t>(expected_rows) + 1);
  size_t kept = 0;
  size_t at = 0;
  for (int64_t row = 0; row < expected_rows; ++row) {
    const size_t end = std::min(text.find('\n', at), text.size());
    string_view key(text.data() + at, end - at);
    if (end < text.size() && absl::EndsWith(key, "\r")) key.remove_suffix(1);
    if (absl::Status status = CheckKey(row, key); !status.ok()) return status;
    offsets.push_back(kept);
    const bool is_utf8 = all_utf8 || simdjson::validate_utf8(key.data(), key.size());
    if (!is_utf8 && !policy.skip_invalid) {
      return LineError(
          row, absl::StrCat(Quoted(key), " is not valid UTF-8 (invalid-keys=skip leaves such rows without key)"));
    }
    if (is_utf8) {
      std::memmove(text.data() + kept, key.data(), key.size());
      kept += key.size();
    }
    at = end + 1;
  }
  offsets.push_back(kept);
  text.resize(kept);
  text.shrink_to_fit();

  KeyIndex::Duplicate duplicate;
  std::unique_ptr<const KeyIndex> index =
      KeyIndex::Create(std::move(text), std::move(offsets), &duplicate, policy.first_keeps);
  if (index == nullptr) {
    return LineError(duplicate.second_row,
                     absl::StrCat("repeats the key of line ", duplicate.first_row + 1, ": ", Quoted(duplicate.key),
                                  " (duplicate-keys=first leaves it to the first row)"));
  }
  return index;
}

absl::StatusOr<std::unique_ptr<const Vocabulary>> LoadVocabulary(const std::string& path, int64_t expected_rows,
                                                                 KeyPolicy policy) {
  absl::StatusOr<SourceFile> file = SourceFile::Open(path);
  if (!file.ok()) return WithPath(path, file.status());
  const bool is_json = absl::EndsWithIgnoreCase(path, ".json");
  // The longest file that any table of so many rows may have. Refused before memory is taken for it.
  uint64_t longest = kMaxJsonVocabularyBytes;
  if ((is_json ||
       !__builtin_mul_overflow(static_cast<uint64_t>(expected_rows), uint64_t{kMaxKeyBytes + 2}, &longest)) &&
      file->size() > longest) {
    return WithPath(path, absl::DataLossError(
                              absl::StrCat("file has ", file->size(), " bytes, more than ",
                                           is_json ? absl::StrCat("the ", longest, " that a .json vocabulary may have")
                                                   : absl::StrCat(expected_rows, " keys may have"))));
  }
  std::string text(file->size(), '\0');
  if (absl::Status status = file->ReadAt(0, text.size(), text.data()); !status.ok()) return WithPath(path, status);
  if (absl::Status status = file->CheckUnchanged(); !status.ok()) return WithPath(path, status);
  const FileKind kind = SniffFile(string_view(text).substr(0, kSniffBytes), text.size()).kind;
  absl::StatusOr<std::unique_ptr<const Vocabulary>> vocabulary =
      is_json ? ParseJsonVocabulary(std::move(text), expected_rows, policy)
              : ParseTextVocabulary(std::move(text), expected_rows, policy);
  // Any text may be keys, "<html>" too: what the file looks like only explains why it is refused. But nobody names his
  // rows by a git-lfs pointer, which has three good lines.
  if (kind == FileKind::kGitLfsPointer) {
    return WithPath(path, absl::DataLossError(absl::StrCat("file is ", Description(kind))));
  }
  if (vocabulary.ok() || kind == FileKind::kUnknown || (is_json && kind == FileKind::kJson)) {
    return vocabulary.ok() ? std::move(vocabulary) : WithPath(path, vocabulary.status());
  }
  // A line of good keys may look like GloVe's or like JSON, and be refused for something else.
  const bool is_text = kind == FileKind::kGlove || kind == FileKind::kWord2vecText || kind == FileKind::kJson;
  return WithPath(path, absl::DataLossError(is_text ? absl::StrCat(vocabulary.status().message(),
                                                                   "; the file looks like ", Description(kind))
                                                    : absl::StrCat("file is ", Description(kind))));
}

}  // namespace embedding
