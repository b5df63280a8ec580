// Rows from files that hold their keys: word2vec and GloVe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/vocabulary.h"

namespace embedding {

struct KeyedRows {
  int64_t num_rows = 0;             // V >= 1
  int64_t dim = 0;                  // d >= 1
  std::shared_ptr<std::byte> rows;  // [num_rows, dim] F32, little-endian
  // The key of row i is keys[key_ends[i - 1], key_ends[i]); empty: none.
  std::string keys;
  std::vector<uint64_t> key_ends = {0};  // num_rows + 1 numbers, from 0
};

// What is wrong with a key, to go behind its place, such as `"\xff" is not valid UTF-8 (...)`; empty if nothing is.
std::string KeyFault(absl::string_view key);

// The keys of the rows, which are moved out of them. place: "line" or "row", what the file's rows are called in
// messages; first: the place of row 0. DATA_LOSS names both places of a key that two rows bear, unless the policy lets
// the first keep it.
absl::StatusOr<std::unique_ptr<const Vocabulary>> TakeKeys(KeyedRows* rows, absl::string_view place, int64_t first,
                                                           KeyPolicy policy);

}  // namespace embedding
