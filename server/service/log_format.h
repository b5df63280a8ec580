// Text of a log line's message and fields. A line stays one line and readable whatever a value holds: control
// characters, line separators and bytes that are not UTF-8 are escaped.
#pragma once

#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"
#include "server/service/log.h"

namespace embedding {

// `message key=value key="a value"`. Quoted: a value that is empty or holds blanks, quotes, '=', '\' or what is
// escaped. Inside quotes " and \ are escaped by \; control characters are \n, \r, \t, \xNN or \uNNNN; bytes that are
// not UTF-8 are \xNN.
std::string FormatText(absl::string_view message, std::initializer_list<LogField> fields);

// `"msg":"message","key":"value","key":12`: the inside of an object. Bytes that are not UTF-8 become U+FFFD.
std::string FormatJson(absl::string_view message, std::initializer_list<LogField> fields);

}  // namespace embedding
