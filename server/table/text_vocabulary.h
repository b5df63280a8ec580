// The parser behind LoadVocabulary, on memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/table/vocabulary.h"

namespace embedding {

// text: the whole file. Rules and errors as LoadVocabulary, except that messages do not begin with a path.
absl::StatusOr<std::unique_ptr<const Vocabulary>> ParseTextVocabulary(std::string text, int64_t expected_rows,
                                                                      KeyPolicy policy);

}  // namespace embedding
