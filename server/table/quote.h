// How text from outside appears in a message.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace embedding {

// The text on one printable line: control bytes, backslashes, double quotes and bytes that are not UTF-8 become escapes
// such as \n and \x80; valid UTF-8 stays. Cut after max_bytes bytes of text with "...".
std::string EscapedText(absl::string_view text, size_t max_bytes = 200);

// EscapedText, between double quotes.
std::string Quoted(absl::string_view text, size_t max_bytes = 200);

// A status of the same code and payloads whose message starts with the path; OK stays OK.
absl::Status WithPath(absl::string_view path, const absl::Status& status);

}  // namespace embedding
