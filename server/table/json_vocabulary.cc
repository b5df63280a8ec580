#include "server/table/json_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/table/json.h"
#include "server/table/key_index.h"
#include "server/table/keyed_rows.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

using absl::string_view;
namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 64;

// The value of a field of an object; nullopt if there is none. Twice: refused by whoever parses.
std::optional<dom::element> Field(dom::object object, std::string_view name) {
  for (const dom::key_value_pair field : object) {
    if (field.key == name) return field.value;
  }
  return std::nullopt;
}

bool HasTwice(dom::object object, std::string_view name) {
  int count = 0;
  for (const dom::key_value_pair field : object) count += field.key == name ? 1 : 0;
  return count > 1;
}

// Tokens by id, as they come.
class Tokens {
 public:
  explicit Tokens(int64_t num_rows) : tokens_(static_cast<size_t>(num_rows)) {}

  absl::Status Add(std::string_view token, dom::element id, bool may_repeat) {
    uint64_t row = 0;
    if (!(id.is_int64() || id.is_uint64()) || id.get_uint64().get(row) != simdjson::SUCCESS) {
      return absl::DataLossError(
          absl::StrCat("token ", Quoted(View(token)), " has the id ", ValueText(id), ", wanted an integer from 0"));
    }
    return Add(token, row, may_repeat);
  }

  // may_repeat: the same token with the same id is no news.
  absl::Status Add(std::string_view token, uint64_t row, bool may_repeat) {
    if (row >= tokens_.size()) {
      return absl::DataLossError(absl::StrCat("token ", Quoted(View(token)), " has the id ", row, ", the table has ",
                                              tokens_.size(), " rows"));
    }
    std::string_view& entry = tokens_[row];
    if (entry.data() != nullptr) {
      if (may_repeat && entry == token) return absl::OkStatus();
      return absl::DataLossError(
          absl::StrCat("the id ", row, " has two tokens, ", Quoted(View(entry)), " and ", Quoted(View(token))));
    }
    entry = token;
    ++count_;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<const Vocabulary>> Finish(KeyPolicy policy) const {
    if (count_ == 0) return absl::DataLossError("holds no tokens");
    std::string blob;
    std::vector<uint64_t> offsets = {0};
    offsets.reserve(tokens_.size() + 1);
    for (size_t row = 0; row < tokens_.size(); ++row) {
      if (tokens_[row].data() != nullptr) {
        const std::string fault = KeyFault(View(tokens_[row]));
        if (!fault.empty() && (!policy.skip_invalid || tokens_[row].size() > kMaxKeyBytes)) {
          return absl::DataLossError(absl::StrCat("id ", row, " ", fault));
        }
        if (fault.empty()) blob += tokens_[row];
      }
      offsets.push_back(blob.size());
    }
    KeyIndex::Duplicate duplicate;
    std::unique_ptr<const KeyIndex> index =
        KeyIndex::Create(std::move(blob), std::move(offsets), &duplicate, policy.first_keeps);
    if (index == nullptr) {
      return absl::DataLossError(absl::StrCat("token ", Quoted(duplicate.key), " has two ids, ", duplicate.first_row,
                                              " and ", duplicate.second_row,
                                              " (duplicate-keys=first leaves it to the first)"));
    }
    return index;
  }

 private:
  std::vector<std::string_view> tokens_;  // without data: no token
  int64_t count_ = 0;
};

absl::Status AddObject(dom::object vocab, Tokens* tokens) {
  for (const dom::key_value_pair field : vocab) {
    if (absl::Status status = tokens->Add(field.key, field.value, false); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status AddUnigram(dom::array vocab, Tokens* tokens) {
  uint64_t row = 0;
  for (const dom::element item : vocab) {
    const std::optional<dom::array> pair = As<dom::array>(item);
    std::string_view token;
    if (!pair.has_value() || pair->size() != 2 || pair->at(0).get(token) != simdjson::SUCCESS ||
        !pair->at(1).is_number()) {
      return absl::DataLossError(
          absl::StrCat("model.vocab[", row, "] is ", ValueText(item), ", wanted a token and its score"));
    }
    if (absl::Status status = tokens->Add(token, row, false); !status.ok()) return status;
    ++row;
  }
  return absl::OkStatus();
}

absl::Status AddAddedTokens(dom::element value, Tokens* tokens) {
  const std::optional<dom::array> added = As<dom::array>(value);
  if (!added.has_value()) {
    return absl::DataLossError(absl::StrCat("added_tokens is ", ValueText(value), ", wanted an array"));
  }
  size_t index = 0;
  for (const dom::element item : *added) {
    const std::optional<dom::object> fields = As<dom::object>(item);
    const std::optional<dom::element> id = fields.has_value() ? Field(*fields, "id") : std::nullopt;
    const std::optional<dom::element> content = fields.has_value() ? Field(*fields, "content") : std::nullopt;
    const std::optional<std::string_view> token =
        content.has_value() ? As<std::string_view>(*content) : std::optional<std::string_view>();
    if (!id.has_value() || !token.has_value() || HasTwice(*fields, "id") || HasTwice(*fields, "content")) {
      return absl::DataLossError(absl::StrCat("added_tokens[", index, "] is ", ValueText(item),
                                              ", wanted an object with one id and one content"));
    }
    if (absl::Status status = tokens->Add(*token, *id, true); !status.ok()) return status;
    ++index;
  }
  return absl::OkStatus();
}

absl::Status AddTokenizer(dom::object root, dom::object model, Tokens* tokens) {
  const std::optional<dom::element> vocab = Field(model, "vocab");
  if (!vocab.has_value() || HasTwice(model, "vocab") || HasTwice(root, "model") || HasTwice(root, "added_tokens")) {
    return absl::DataLossError("is no tokenizer.json: wanted model, its vocab and added_tokens, each at most once");
  }
  absl::Status status;
  if (const std::optional<dom::object> object = As<dom::object>(*vocab)) {
    status = AddObject(*object, tokens);
  } else if (const std::optional<dom::array> array = As<dom::array>(*vocab)) {
    status = AddUnigram(*array, tokens);
  } else {
    status = absl::DataLossError(absl::StrCat("model.vocab is ", ValueText(*vocab), ", wanted an object or an array"));
  }
  if (!status.ok()) return status;
  const std::optional<dom::element> added = Field(root, "added_tokens");
  return added.has_value() ? AddAddedTokens(*added, tokens) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Vocabulary>> ParseJsonVocabulary(std::string json, int64_t expected_rows,
                                                                      KeyPolicy policy) {
  if (expected_rows > KeyIndex::kMaxRows) {
    return absl::DataLossError(
        absl::StrCat("table has ", expected_rows, " rows, keys are held for at most ", KeyIndex::kMaxRows));
  }
  dom::parser parser;
  dom::element value;
  if (absl::Status status = ParseJson(&json, kMaxDepth, &parser, &value); !status.ok()) return status;
  const std::optional<dom::object> root = As<dom::object>(value);
  if (!root.has_value()) {
    return absl::DataLossError(absl::StrCat(
        "is ", ValueText(value), ", wanted an object of tokens and ids (vocab.json) ", "or a tokenizer.json"));
  }
  Tokens tokens(expected_rows);
  const std::optional<dom::element> model = Field(*root, "model");
  // The word "model" may be a token too, but its id is no object.
  const std::optional<dom::object> tokenizer = model.has_value() ? As<dom::object>(*model) : std::nullopt;
  const absl::Status status =
      tokenizer.has_value() ? AddTokenizer(*root, *tokenizer, &tokens) : AddObject(*root, &tokens);
  if (!status.ok()) return status;
  return tokens.Finish(policy);
}

}  // namespace embedding
