#include "server/table/json.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/table/quote.h"

namespace embedding {

namespace dom = simdjson::dom;

std::string ValueText(dom::element value) { return EscapedText(simdjson::minify(value), 60); }

std::optional<std::string_view> DuplicateKey(dom::element value) {
  if (const std::optional<dom::object> object = As<dom::object>(value)) {
    std::vector<std::string_view> keys;
    for (const dom::key_value_pair field : *object) {
      keys.push_back(field.key);
      if (const std::optional<std::string_view> twice = DuplicateKey(field.value)) return twice;
    }
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return *twice;
  } else if (const std::optional<dom::array> array = As<dom::array>(value)) {
    for (const dom::element item : *array) {
      if (const std::optional<std::string_view> twice = DuplicateKey(item)) return twice;
    }
  }
  return std::nullopt;
}

absl::Status ParseJson(std::string* text, size_t max_depth, dom::parser* parser, dom::element* root) {
  const size_t length = text->size();
  text->resize(length + simdjson::SIMDJSON_PADDING);
  simdjson::error_code error = parser->allocate(length, max_depth);
  if (error == simdjson::SUCCESS) error = parser->parse(text->data(), length, false).get(*root);
  if (error == simdjson::SUCCESS) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("is no JSON that is read here: ", simdjson::error_message(error)));
}

}  // namespace embedding
