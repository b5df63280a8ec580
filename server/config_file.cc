#include "server/config_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

// Settings are short: what is longer is some other file.
constexpr size_t kMaxFileBytes = size_t{1} << 20;

bool IsBare(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; }

// One pass over the text, a line counter beside it.
class Parser {
 public:
  Parser(absl::string_view text, const std::string& path) : text_(text), path_(path) {}

  absl::StatusOr<std::vector<ConfigEntry>> Parse() {
    std::vector<ConfigEntry> entries;
    for (;;) {
      SkipSpace(/*lines_too=*/true);
      if (AtEnd()) return entries;
      ConfigEntry entry;
      entry.line = line_;
      if (absl::Status s = ParseEntry(entry); !s.ok()) return s;
      for (const ConfigEntry& earlier : entries) {
        if (earlier.key == entry.key) {
          return ErrorAt(entry.line, absl::StrCat(entry.key, " stands on line ", earlier.line, " already"));
        }
      }
      entries.push_back(std::move(entry));
    }
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\n' : text_[at_]; }

  absl::Status ErrorAt(int line, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ": ", what));
  }
  absl::Status Error(const std::string& what) const { return ErrorAt(line_, what); }

  void SkipSpace(bool lines_too) {
    while (!AtEnd()) {
      const char c = text_[at_];
      if (c == '#') {
        while (!AtEnd() && text_[at_] != '\n') ++at_;
      } else if (c == '\n' && lines_too) {
        ++line_;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string BareWord() {
    const size_t begin = at_;
    while (!AtEnd() && IsBare(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  absl::Status ParseEntry(ConfigEntry& entry) {
    if (Peek() == '[') return Error("sections are not taken, only key = value");
    entry.key = BareWord();
    if (entry.key.empty()) return Error("want key = value");
    SkipSpace(/*lines_too=*/false);
    if (Peek() != '=') return Error(absl::StrCat("want '=' after ", entry.key));
    ++at_;
    SkipSpace(/*lines_too=*/false);
    if (Peek() == '[') {
      entry.is_list = true;
      if (absl::Status s = ParseList(entry.values); !s.ok()) return s;
    } else {
      std::string value;
      if (absl::Status s = ParseValue(value); !s.ok()) return s;
      entry.values.push_back(std::move(value));
    }
    SkipSpace(/*lines_too=*/false);
    if (!AtEnd() && Peek() != '\n') return Error(absl::StrCat("more than one value for ", entry.key));
    return absl::OkStatus();
  }

  absl::Status ParseList(std::vector<std::string>& values) {
    ++at_;
    for (;;) {
      SkipSpace(/*lines_too=*/true);
      if (Peek() == ']') break;
      if (Peek() != '"' && Peek() != '\'') return Error("want a string or ] in the list");
      std::string value;
      if (absl::Status s = ParseValue(value); !s.ok()) return s;
      values.push_back(std::move(value));
      SkipSpace(/*lines_too=*/true);
      if (Peek() == ',') {
        ++at_;
      } else if (Peek() != ']') {
        return Error("want , or ] in the list");
      }
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::Status ParseValue(std::string& value) {
    if (Peek() == '"' || Peek() == '\'') return ParseString(value);
    value = BareWord();
    if (value == "true" || value == "false") return absl::OkStatus();
    const bool negative = !value.empty() && value[0] == '-';
    const size_t digits = value.find_first_not_of("0123456789_", negative ? 1 : 0);
    if (value.size() > (negative ? 1u : 0u) && digits == std::string::npos) {
      // TOML allows 65_536.
      std::string number;
      for (const char c : value) {
        if (c != '_') number.push_back(c);
      }
      value = std::move(number);
      return absl::OkStatus();
    }
    if (value.empty()) return Error("want a value: a \"string\", a whole number, true, false or a [list]");
    return Error(absl::StrCat("'", value, "' is no value: text stands in quotes, as in \"", value, "\""));
  }

  absl::Status ParseString(std::string& value) {
    const char quote = text_[at_++];
    for (;;) {
      if (AtEnd() || text_[at_] == '\n') return Error("a string does not end on its line");
      const char c = text_[at_++];
      if (c == quote) return absl::OkStatus();
      if (c != '\\' || quote == '\'') {
        value.push_back(c);
        continue;
      }
      const char escaped = Peek();
      ++at_;
      switch (escaped) {
        case '"':
        case '\\':
          value.push_back(escaped);
          break;
        case 'n':
          value.push_back('\n');
          break;
        case 't':
          value.push_back('\t');
          break;
        default:
          return Error("in a string \\ stands before \", \\, n or t only");
      }
    }
  }

  const absl::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ParseConfigText(absl::string_view text, const std::string& path) {
  return Parser(text, path).Parse();
}

absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    text.resize(kMaxFileBytes + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config: cannot read '", path, "': ", std::strerror(errno != 0 ? errno : EIO)));
  }
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--config: '", path, "' has over ", kMaxFileBytes, " bytes"));
  }
  return ParseConfigText(text, path);
}

}  // namespace embedding
