#include "server/service/log_format.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace embedding {
namespace {

// One UTF-8 sequence as RFC 3629 allows it. size 0: the byte here starts none.
struct Sequence {
  size_t size = 0;
  uint32_t code_point = 0;
};

Sequence NextSequence(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {1, first};
  const size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                      : first >= 0xE0 && first <= 0xEF ? 3
                      : first >= 0xF0 && first <= 0xF4 ? 4
                                                       : 0;
  if (size == 0 || text.size() < size) return {};
  uint32_t code_point = first & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code_point = code_point << 6 | (byte(i) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kSmallest[size] || code_point > 0x10FFFF || surrogate) return {};
  return {size, code_point};
}

// What a terminal or a reader of lines may act on: C0, DEL, C1, line and paragraph separator.
bool IsControl(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F) || code_point == 0x2028 ||
         code_point == 0x2029;
}

void AppendHex(std::string& out, const char* format, uint32_t value) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), format, value);
  out += buffer;
}

// True when \n, \r or \t was appended.
bool AppendShortEscape(std::string& out, uint32_t code_point) {
  switch (code_point) {
    case '\n':
      out += "\\n";
      return true;
    case '\r':
      out += "\\r";
      return true;
    case '\t':
      out += "\\t";
      return true;
    default:
      return false;
  }
}

void AppendEscaped(std::string& out, absl::string_view text, bool json, bool in_quotes) {
  while (!text.empty()) {
    const Sequence sequence = NextSequence(text);
    if (sequence.size == 0) {
      if (json) {
        out += "\\ufffd";
      } else {
        AppendHex(out, "\\x%02x", static_cast<uint8_t>(text[0]));
      }
      text.remove_prefix(1);
      continue;
    }
    if (in_quotes && (text[0] == '"' || text[0] == '\\')) {
      out += '\\';
      out += text[0];
    } else if (!IsControl(sequence.code_point)) {
      out.append(text.data(), sequence.size);
    } else if (!AppendShortEscape(out, sequence.code_point)) {
      AppendHex(out, json || sequence.code_point > 0x7F ? "\\u%04x" : "\\x%02x", sequence.code_point);
    }
    text.remove_prefix(sequence.size);
  }
}

bool NeedsQuotes(absl::string_view value) {
  if (value.empty()) return true;
  while (!value.empty()) {
    const Sequence sequence = NextSequence(value);
    if (sequence.size == 0 || IsControl(sequence.code_point)) return true;
    if (sequence.size == 1 && absl::string_view(" \"=\\").find(value[0]) != absl::string_view::npos) return true;
    value.remove_prefix(sequence.size);
  }
  return false;
}

}  // namespace

std::string FormatText(absl::string_view message, std::initializer_list<LogField> fields) {
  std::string out;
  AppendEscaped(out, message, /*json=*/false, /*in_quotes=*/false);
  for (const LogField& field : fields) {
    out += ' ';
    AppendEscaped(out, field.key, /*json=*/false, /*in_quotes=*/false);
    out += '=';
    const bool quotes = field.quoted && NeedsQuotes(field.value);
    if (quotes) out += '"';
    AppendEscaped(out, field.value, /*json=*/false, /*in_quotes=*/quotes);
    if (quotes) out += '"';
  }
  return out;
}

std::string FormatJson(absl::string_view message, std::initializer_list<LogField> fields) {
  const auto append_string = [](std::string& out, absl::string_view text) {
    out += '"';
    AppendEscaped(out, text, /*json=*/true, /*in_quotes=*/true);
    out += '"';
  };
  std::string out = "\"msg\":";
  append_string(out, message);
  for (const LogField& field : fields) {
    out += ',';
    append_string(out, field.key);
    out += ':';
    if (field.quoted) {
      append_string(out, field.value);
    } else {
      out += field.value;
    }
  }
  return out;
}

}  // namespace embedding
