#include "server/values.h"

#include <array>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

struct Unit {
  const char* name;
  int64_t factor;
};

// Largest first, so that the first that divides a value gives its shortest text.
constexpr std::array<Unit, 5> kSizeUnits = {{{"TiB", int64_t{1} << 40},
                                             {"GiB", int64_t{1} << 30},
                                             {"MiB", int64_t{1} << 20},
                                             {"KiB", int64_t{1} << 10},
                                             {"", 1}}};
constexpr std::array<Unit, 4> kDurationUnits = {{{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}}};

// Nullopt: not digits followed by one of the units, or beyond 64 bits.
template <size_t N>
std::optional<int64_t> ParseWithUnit(absl::string_view text, const std::array<Unit, N>& units) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
  int64_t number = 0;
  if (digits == 0 || !absl::SimpleAtoi(text.substr(0, digits), &number)) return std::nullopt;
  const absl::string_view suffix = text.substr(digits);
  for (const Unit& unit : units) {
    if (suffix != unit.name) continue;
    if (number > std::numeric_limits<int64_t>::max() / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

template <size_t N>
std::string WithUnit(int64_t value, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) return absl::StrCat(value / unit.factor, unit.name);
  }
  return "0";
}

absl::Status Refused(const std::string& kind, const std::string& min, const std::string& max) {
  return absl::InvalidArgumentError(absl::StrCat("want ", kind, " from ", min, " to ", max));
}

}  // namespace

absl::StatusOr<int64_t> ParseCount(absl::string_view text, int64_t min, int64_t max) {
  const std::optional<int64_t> number = ParseWithUnit(text, std::array<Unit, 1>{{{"", 1}}});
  if (!number.has_value() || *number < min || *number > max) {
    return Refused("a whole number", absl::StrCat(min), absl::StrCat(max));
  }
  return *number;
}

absl::StatusOr<int64_t> ParseSize(absl::string_view text, int64_t min, int64_t max) {
  const std::optional<int64_t> bytes = ParseWithUnit(text, kSizeUnits);
  if (!bytes.has_value() || *bytes < min || *bytes > max) {
    return Refused("bytes, such as 65536, 16MiB or 1GiB,", SizeText(min), SizeText(max));
  }
  return *bytes;
}

absl::StatusOr<std::chrono::milliseconds> ParseDuration(absl::string_view text, std::chrono::milliseconds min,
                                                        std::chrono::milliseconds max) {
  const std::optional<int64_t> ms = text == "0" ? 0 : ParseWithUnit(text, kDurationUnits);
  if (!ms.has_value() || *ms < min.count() || *ms > max.count()) {
    return Refused("a duration, such as 500ms, 30s or 2m,", DurationText(min), DurationText(max));
  }
  return std::chrono::milliseconds(*ms);
}

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return absl::InvalidArgumentError("want true or false");
}

std::string SizeText(int64_t bytes) { return WithUnit(bytes, kSizeUnits); }

std::string DurationText(std::chrono::milliseconds duration) { return WithUnit(duration.count(), kDurationUnits); }

}  // namespace embedding
