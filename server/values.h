// Text <-> the values of settings.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace embedding {

// Each INVALID_ARGUMENT says what is allowed, as in "want a whole number from 1 to 10"; the caller names setting and
// value.

// Digits only: "65536". Neither signs nor exponents.
absl::StatusOr<int64_t> ParseCount(absl::string_view text, int64_t min, int64_t max);
// Bytes: digits, alone or with KiB, MiB, GiB or TiB: "16MiB".
absl::StatusOr<int64_t> ParseSize(absl::string_view text, int64_t min, int64_t max);
// Digits with ms, s, m or h: "500ms", "30s"; "0" needs no unit.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(absl::string_view text, std::chrono::milliseconds min,
                                                        std::chrono::milliseconds max);
absl::StatusOr<bool> ParseBool(absl::string_view text);

// The shortest text that parses to the same value: 16777216 is "16MiB", 30000 ms is "30s".
std::string SizeText(int64_t bytes);
std::string DurationText(std::chrono::milliseconds duration);

}  // namespace embedding
