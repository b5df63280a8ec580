#include "server/table/text_row.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

using absl::string_view;

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// The number at the start of [begin, end) and, as the result, the byte after it; null if there is none or F32 cannot
// hold it. What is too small for F32 becomes 0, as any rounding would have it.
const char* ParseNumber(const char* begin, const char* end, float* value) {
  const auto [after, error] = std::from_chars(begin, end, *value);
  if (error == std::errc()) return after;
  if (error != std::errc::result_out_of_range) return nullptr;
  double wide = 0;
  if (std::from_chars(begin, end, wide).ec == std::errc()) {
    *value = static_cast<float>(wide);
    return std::isinf(*value) ? nullptr : after;
  }
  // Beyond a double too: only a negative exponent makes a number too small.
  const string_view text(begin, static_cast<size_t>(after - begin));
  const size_t exponent = text.find_first_of("eE");
  if (exponent == string_view::npos || exponent + 1 >= text.size() || text[exponent + 1] != '-') return nullptr;
  *value = *begin == '-' ? -0.0f : 0.0f;
  return after;
}

string_view WithoutEnd(string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Takes the last field, and the blanks behind it, off the line. False if there is none, or if no blank parts it from
// what is before: then it is the key.
bool TakeLastField(string_view* line, string_view* field) {
  size_t end = line->size();
  while (end > 0 && IsBlank((*line)[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && !IsBlank((*line)[begin - 1])) --begin;
  if (begin == 0) return false;
  *field = line->substr(begin, end - begin);
  *line = line->substr(0, begin);
  return true;
}

int64_t CountFields(string_view line) {
  int64_t fields = 0;
  for (size_t i = 0; i < line.size(); ++i) fields += !IsBlank(line[i]) && (i == 0 || IsBlank(line[i - 1]));
  return fields;
}

absl::Status ParseField(string_view field, int64_t column, bool allow_non_finite, float* value) {
  const auto refused = [&](string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("field ", column + 2, " ", Quoted(field, 60), " is ", what));
  };
  const char* end = field.data() + field.size();
  if (ParseNumber(field.data(), end, value) != end) {
    double wide = 0;
    const auto [after, error] = std::from_chars(field.data(), end, wide);
    const bool too_large = error == std::errc::result_out_of_range || (error == std::errc() && after == end);
    return refused(too_large ? "beyond the range of F32 (the key is field 1)" : "not a number (the key is field 1)");
  }
  if (!std::isfinite(*value) && !allow_non_finite) {
    return refused(absl::StrCat(std::isnan(*value) ? "NaN" : "infinite",
                                " (allow-non-finite=true serves such rows, searches then leave them out)"));
  }
  return absl::OkStatus();
}

// By fields from the right: for keys with blanks, and to say what is wrong.
absl::Status ParseFromTheRight(string_view line, int64_t dim, bool allow_non_finite, float* vector, string_view* key) {
  const auto wanted = [dim] { return absl::StrCat("wanted a key and ", dim, " number", dim == 1 ? "" : "s"); };
  if (line.find_first_not_of(" \t") == string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("is empty, ", wanted()));
  }
  const int64_t numbers = CountTrailingNumbers(line);
  if (numbers > dim && numbers >= CountFields(line) - 1) {
    return absl::InvalidArgumentError(absl::StrCat("has ", numbers, " numbers, ", wanted()));
  }
  string_view rest = line;
  absl::Status fault;
  for (int64_t column = dim - 1; column >= 0; --column) {
    string_view field;
    if (!TakeLastField(&rest, &field)) {
      return absl::InvalidArgumentError(absl::StrCat("has ", CountFields(line), " fields, ", wanted()));
    }
    // People read from the left: the last fault found is the one to tell.
    absl::Status status = ParseField(field, column, allow_non_finite, vector + column);
    if (!status.ok()) fault = std::move(status);
  }
  if (!fault.ok()) return fault;
  // The blank that parts key and vector.
  rest.remove_suffix(1);
  *key = rest;
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseTextRow(string_view line, int64_t dim, bool allow_non_finite, float* vector, string_view* key) {
  line = WithoutEnd(line);
  // The line ends of an old Mac would make one row of the whole file, with most of it in the key.
  if (line.find('\r') != string_view::npos) {
    return absl::InvalidArgumentError("holds a carriage return before its end: lines must end with \\n or \\r\\n");
  }
  const char* at = line.data();
  const char* const end = at + line.size();
  while (at != end && !IsBlank(*at)) ++at;
  *key = string_view(line.data(), static_cast<size_t>(at - line.data()));
  bool plain = !key->empty();
  bool finite = true;
  for (int64_t column = 0; plain && column < dim; ++column) {
    while (at != end && IsBlank(*at)) ++at;
    const char* after = ParseNumber(at, end, vector + column);
    plain = after != nullptr && (after == end || IsBlank(*after));
    finite = finite && std::isfinite(vector[column]);
    at = after;
  }
  while (plain && at != end && IsBlank(*at)) ++at;
  if (plain && at == end && (finite || allow_non_finite)) return absl::OkStatus();
  return ParseFromTheRight(line, dim, allow_non_finite, vector, key);
}

int64_t CountTrailingNumbers(string_view line) {
  line = WithoutEnd(line);
  int64_t numbers = 0;
  for (string_view field; TakeLastField(&line, &field) && IsNumber(field);) ++numbers;
  return numbers;
}

bool IsNumber(string_view field) {
  float value = 0;
  const char* end = field.data() + field.size();
  return !field.empty() && ParseNumber(field.data(), end, &value) == end;
}

}  // namespace embedding
