// Words of the command line and lines of stdin -> ids, keys and vectors.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/types.h"

namespace embedding::client {

// Errors are INVALID_ARGUMENT and name the word.

// "5", "0-9" (both ends), lists of them with commas; "-" stands for the lines of `in`. At most 10,000,000 ids.
absl::StatusOr<Ids> ParseIds(const std::vector<std::string>& words, std::istream& in);

// The words as they are; "-" stands for the lines of `in`. Empty lines are skipped; a carriage return before the line's
// end is dropped.
absl::StatusOr<Keys> ParseKeys(const std::vector<std::string>& words, std::istream& in);

// Each word one vector: numbers with commas (or white space) between; "-" stands for the lines of `in`. All must be as
// long as the first.
absl::StatusOr<Vectors> ParseVectors(const std::vector<std::string>& words, std::istream& in);

// An analogy as it is said: "king - man + woman" as words, each key behind its sign, the first one with or without.
struct Analogy {
  std::vector<std::string> positive;
  std::vector<std::string> negative;
};
absl::StatusOr<Analogy> ParseAnalogy(const std::vector<std::string>& words);

// "A:B": rows A <= id < B; either may be left out. Gives {first, end}, end 0 for the end of the table.
absl::StatusOr<std::pair<int64_t, int64_t>> ParseRowRange(const std::string& word);

}  // namespace embedding::client
