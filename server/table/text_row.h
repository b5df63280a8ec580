// One line of a GloVe or word2vec text file: a key, a blank, d numbers.
//
// Blanks are spaces and tabs; a line may end with some, as those of the word2vec program do. Numbers are read by
// std::from_chars, so the locale never matters, and each must fill its field.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace embedding {

// Bytes that a line may have, its end not counted.
inline constexpr uint64_t kMaxTextLineBytes = uint64_t{16} << 20;

// Parses a line (without its \n; one \r at its end is ignored, any other is refused) into vector, [dim], overwritten,
// and the key, which points into the line and is not checked. The last dim fields are the vector, so the key may hold
// blanks; but a line whose fields after the first are all numbers, more than dim, is refused rather than cut at a
// guess. NaN and infinity are refused unless allow_non_finite. INVALID_ARGUMENT with a message to go behind "line 7, "
// or "line 7 " such as `field 3 "abc" is not a number (the key is field 1)`.
absl::Status ParseTextRow(absl::string_view line, int64_t dim, bool allow_non_finite, float* vector,
                          absl::string_view* key);

// Fields that are numbers at the end of a line; its first field is never counted.
int64_t CountTrailingNumbers(absl::string_view line);

// Whether a whole field is a number.
bool IsNumber(absl::string_view field);

}  // namespace embedding
