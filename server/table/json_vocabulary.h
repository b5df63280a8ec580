// The parser behind LoadVocabulary for .json files, on memory.
//
// Read are vocab.json, an object of tokens and ids, and tokenizer.json of Hugging Face's tokenizers
// (https://github.com/huggingface/tokenizers): model.vocab, an object of tokens and ids or, for Unigram, an array of
// [token, score] in the order of ids; and added_tokens, an array of objects with id and content, which may name again
// what the model has. Tokens are keys as they are written: byte-level ones keep their "Ġ".
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/table/vocabulary.h"

namespace embedding {

// Bytes that a .json vocabulary may have: simdjson counts in 32 bits, and the largest in use have some 40 MB.
inline constexpr uint64_t kMaxJsonVocabularyBytes = uint64_t{1} << 30;

// json: the whole file. Each id must be an integer in [0, expected_rows); rows without a token have no key, since
// models pad their tables beyond their vocabularies. DATA_LOSS: no JSON, no such vocabulary, no token at all, an id
// that is no such integer, two tokens of one id, or, unless the policy lets them pass, one token of two ids, an empty
// token, one with a NUL. Messages name tokens and ids.
absl::StatusOr<std::unique_ptr<const Vocabulary>> ParseJsonVocabulary(std::string json, int64_t expected_rows,
                                                                      KeyPolicy policy);

}  // namespace embedding
