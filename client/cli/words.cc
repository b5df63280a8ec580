#include "client/cli/words.h"

#include <charconv>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/status_codec.h"

namespace embedding::client {
namespace {

constexpr int64_t kMaxIds = 10'000'000;

// Puts the lines of `in` in the place of each "-".
absl::StatusOr<std::vector<std::string>> WithLines(const std::vector<std::string>& words, std::istream& in) {
  std::vector<std::string> expanded;
  bool used_lines = false;
  for (const std::string& word : words) {
    if (word != "-") {
      expanded.push_back(word);
      continue;
    }
    if (used_lines) return absl::InvalidArgumentError("\"-\" is given twice, but stdin can be read once");
    used_lines = true;
    for (std::string line; std::getline(in, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty()) expanded.push_back(std::move(line));
    }
  }
  return expanded;
}

absl::Status BadId(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", Escaped(text), "\" is neither an id (0 or more) nor a range such as 0-9"));
}

absl::Status AppendIds(absl::string_view text, std::vector<int64_t>& ids) {
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
  const bool is_range = absl::StrContains(text, '-');
  int64_t first = 0;
  if (!absl::SimpleAtoi(ends.first, &first) || first < 0) return BadId(text);
  int64_t last = first;
  if (is_range && (!absl::SimpleAtoi(ends.second, &last) || last < 0)) return BadId(text);
  if (last < first) {
    return absl::InvalidArgumentError(absl::StrCat("the range \"", Escaped(text), "\" runs backwards"));
  }
  if (last - first >= kMaxIds - static_cast<int64_t>(ids.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Escaped(text), "\" makes it more than ", kMaxIds, " ids, which one command may name"));
  }
  for (int64_t i = 0; i <= last - first; ++i) ids.push_back(first + i);
  return absl::OkStatus();
}

absl::Status AppendVector(const std::string& word, Vectors& vectors) {
  const size_t before = vectors.values.size();
  for (absl::string_view number : absl::StrSplit(word, absl::ByAnyChar(", \t"), absl::SkipWhitespace())) {
    float value = 0;
    const char* begin = number.data() + (number.size() > 1 && number[0] == '+' ? 1 : 0);
    const char* end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc::result_out_of_range) {
      return absl::InvalidArgumentError(absl::StrCat("\"", Escaped(number), "\" is beyond 32-bit floating point"));
    }
    if (error != std::errc() || stop != end) {
      return absl::InvalidArgumentError(absl::StrCat("\"", Escaped(number), "\" is no number"));
    }
    vectors.values.push_back(value);
  }
  const auto count = static_cast<int64_t>(vectors.values.size() - before);
  if (count == 0) return absl::InvalidArgumentError("a vector without numbers");
  if (before == 0) vectors.dim = count;
  if (count != vectors.dim) {
    return absl::InvalidArgumentError(absl::StrCat("vector ", static_cast<int64_t>(before) / vectors.dim, " has ",
                                                   count, " numbers, vector 0 has ", vectors.dim));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ids> ParseIds(const std::vector<std::string>& words, std::istream& in) {
  const absl::StatusOr<std::vector<std::string>> expanded = WithLines(words, in);
  if (!expanded.ok()) return expanded.status();
  Ids ids;
  for (const std::string& word : *expanded) {
    for (const absl::string_view text : absl::StrSplit(word, ',')) {
      if (absl::Status s = AppendIds(absl::StripAsciiWhitespace(text), ids.values); !s.ok()) return s;
    }
  }
  return ids;
}

absl::StatusOr<Keys> ParseKeys(const std::vector<std::string>& words, std::istream& in) {
  absl::StatusOr<std::vector<std::string>> expanded = WithLines(words, in);
  if (!expanded.ok()) return expanded.status();
  return Keys{*std::move(expanded), {}};
}

absl::StatusOr<Vectors> ParseVectors(const std::vector<std::string>& words, std::istream& in) {
  const absl::StatusOr<std::vector<std::string>> expanded = WithLines(words, in);
  if (!expanded.ok()) return expanded.status();
  Vectors vectors;
  for (const std::string& word : *expanded) {
    if (absl::Status s = AppendVector(word, vectors); !s.ok()) return s;
  }
  return vectors;
}

absl::StatusOr<Analogy> ParseAnalogy(const std::vector<std::string>& words) {
  Analogy analogy;
  std::string sign;
  for (const std::string& word : words) {
    if (word == "+" || word == "-") {
      if (!sign.empty()) return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" stands behind \"", sign, "\""));
      sign = word;
      continue;
    }
    const bool is_first = analogy.positive.empty() && analogy.negative.empty();
    if (sign.empty() && !is_first) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", Escaped(word), "\" has no sign: write + or - before it, as in king - man + woman"));
    }
    (sign == "-" ? analogy.negative : analogy.positive).push_back(word);
    sign.clear();
  }
  if (!sign.empty()) return absl::InvalidArgumentError(absl::StrCat("no key stands behind the last \"", sign, "\""));
  return analogy;
}

absl::StatusOr<std::pair<int64_t, int64_t>> ParseRowRange(const std::string& word) {
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(word, absl::MaxSplits(':', 1));
  int64_t first = 0, end = 0;
  const bool has_end = !ends.second.empty();
  const bool readable = absl::StrContains(word, ':') &&
                        (ends.first.empty() || (absl::SimpleAtoi(ends.first, &first) && first >= 0)) &&
                        (!has_end || (absl::SimpleAtoi(ends.second, &end) && end >= 0));
  if (!readable) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Escaped(word), "\" is no range of rows such as 0:1000, :1000 or 500:"));
  }
  if (has_end && end <= first) {
    return absl::InvalidArgumentError(absl::StrCat("the range \"", Escaped(word), "\" holds no row"));
  }
  return std::pair(first, end);
}

}  // namespace embedding::client
