// What the readers of foreign JSON share. Included by .cc files alone: simdjson stays out of the other headers.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace embedding {

// The value as an object, an array or a string; nullopt if it is something else. (What simdjson returns itself does not
// survive a range-for: begin() refers to the temporary.)
template <typename T>
std::optional<T> As(simdjson::dom::element value) {
  T result;
  if (value.get(result) != simdjson::SUCCESS) return std::nullopt;
  return result;
}

inline absl::string_view View(std::string_view text) { return absl::string_view(text.data(), text.size()); }

// The value in a message.
std::string ValueText(simdjson::dom::element value);

// A key that some object at or below `value` holds twice, after unescaping: parsers differ on which one wins. Recurses,
// so the parser must have bounded the depth.
std::optional<std::string_view> DuplicateKey(simdjson::dom::element value);

// Parses a whole file, which is padded in place; the document lives in the parser and may refer to text. DATA_LOSS
// `is no JSON that is read here: ...`, which includes text that is not UTF-8 and nesting beyond max_depth.
absl::Status ParseJson(std::string* text, size_t max_depth, simdjson::dom::parser* parser,
                       simdjson::dom::element* root);

}  // namespace embedding
