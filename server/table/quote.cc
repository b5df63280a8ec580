#include "server/table/quote.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

constexpr size_t kMaxPathBytes = 4096;  // PATH_MAX: a path is never cut

// Length of the well-formed UTF-8 sequence (Unicode 15, table 3-7) of two or more bytes at the start, or 0. C1 control
// characters count as ill-formed here: terminals obey some of them.
size_t MultiByteLength(absl::string_view text) {
  const auto byte = [&](size_t i) -> unsigned { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto tail = [&](size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xBF; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first == 0xC2) return second >= 0xA0 && second <= 0xBF ? 2 : 0;
  if (first >= 0xC3 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return second >= low && second <= high && tail(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string EscapedText(absl::string_view text, size_t max_bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(std::min(text.size(), max_bytes) + 8);
  for (size_t i = 0; i < text.size();) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80 ? 1 : std::max<size_t>(1, MultiByteLength(text.substr(i)));
    if (i + length > max_bytes) {
      out += "...";
      break;
    }
    if (length > 1) {
      out.append(text.data() + i, length);
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\r') {
      out += "\\r";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte == '"' || byte == '\\') {
      out += '\\';
      out += static_cast<char>(byte);
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += static_cast<char>(byte);
    }
    i += length;
  }
  return out;
}

std::string Quoted(absl::string_view text, size_t max_bytes) {
  return absl::StrCat("\"", EscapedText(text, max_bytes), "\"");
}

absl::Status WithPath(absl::string_view path, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status with_path(status.code(), absl::StrCat(EscapedText(path, kMaxPathBytes), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { with_path.SetPayload(url, payload); });
  return with_path;
}

}  // namespace embedding
