// UTF-8 as proto3 demands it of strings.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace embedding {

// Bytes (1 to 4) of the character that text begins with, or 0 if it begins with none: text is empty, cut short,
// overlong, a surrogate or above U+10FFFF (RFC 3629, section 4).
size_t Utf8CharacterSize(absl::string_view text);

bool IsValidUtf8(absl::string_view text);

}  // namespace embedding
