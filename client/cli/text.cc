#include "client/cli/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace embedding::client {
namespace {

constexpr char kHex[] = "0123456789abcdef";

// Code points of UTF-8: bytes that do not continue one.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void AppendHex(unsigned char byte, std::string& out) {
  out += "\\x";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}  // namespace

std::string Shortest(float value) {
  std::string text;
  AppendShortest(value, text);
  return text;
}

void AppendShortest(float value, std::string& out) {
  char buffer[32];  // the longest is "-1.17549435e-38"
  const auto [end, error] = std::to_chars(std::begin(buffer), std::end(buffer), value);
  out.append(buffer, end);
}

std::string Printable(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7F) {
      AppendHex(byte, out);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      AppendHex(byte, out);
      AppendHex(next, out);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

void WriteCsvLine(const std::vector<std::string>& fields, std::span<const float> numbers, std::ostream& out) {
  std::string line;
  for (const std::string& field : fields) {
    line += CsvField(field);
    line += ',';
  }
  for (const float number : numbers) {
    AppendShortest(number, line);
    line += ',';
  }
  line.back() = '\n';
  out << line;
}

void WriteCsvLine(const std::vector<std::string>& fields, std::ostream& out) { WriteCsvLine(fields, {}, out); }

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonFloats(std::span<const float> values) {
  std::string out = "[";
  for (const float value : values) {
    if (out.size() > 1) out += ',';
    if (std::isnan(value)) {
      out += "\"NaN\"";
    } else if (std::isinf(value)) {
      out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    } else {
      AppendShortest(value, out);
    }
  }
  return out + "]";
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

void TextTable::Write(std::ostream& out) const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(Width(column.title));
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  const auto write = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths[i] - Width(cells[i]), ' ');
      const bool last = i + 1 == cells.size();
      if (columns_[i].align == Align::kRight) {
        line += blanks + cells[i];
      } else {
        line += cells[i] + (last ? "" : blanks);
      }
      if (!last) line += "  ";
    }
    line.resize(line.find_last_not_of(' ') + 1);  // of empty cells at the end
    out << line << "\n";
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  write(titles);
  for (const std::vector<std::string>& row : rows_) write(row);
}

}  // namespace embedding::client
