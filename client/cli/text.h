// Pieces of output: numbers, safe text, aligned columns, CSV and JSON strings.
#pragma once

#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace embedding::client {

// The shortest decimal that reads back as the same float; "nan", "inf" and "-inf" for those.
std::string Shortest(float value);
void AppendShortest(float value, std::string& out);

// The text with control characters (C0, DEL, C1) as \xNN, so that no key can steer a terminal.
std::string Printable(const std::string& text);

// A field of RFC 4180: quoted where it holds a comma, a quote or a line break.
std::string CsvField(const std::string& text);
// One line: the fields, then the numbers.
void WriteCsvLine(const std::vector<std::string>& fields, std::span<const float> numbers, std::ostream& out);
void WriteCsvLine(const std::vector<std::string>& fields, std::ostream& out);

// A string of RFC 8259, quotes included. text: UTF-8.
std::string JsonString(const std::string& text);
// "[1,-0.5]"; NaN and infinities as the strings that the protobuf JSON mapping has for them.
std::string JsonFloats(std::span<const float> values);

enum class Align { kLeft, kRight };

// A table for people: a header and rows, columns two blanks apart, as wide as their widest cell (in code points).
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // cells: one per column. Made printable.
  void AddRow(std::vector<std::string> cells);
  void Write(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace embedding::client
