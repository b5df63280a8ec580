// Keys <-> rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace embedding {

// Bytes that a key may have.
inline constexpr size_t kMaxKeyBytes = 65536;

// Immutable, so all methods may be called concurrently. Keys compare byte by byte.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  // V.
  virtual int64_t num_rows() const = 0;
  // The row of a key, or nullopt. The empty key names no row: it is what KeyOf gives for rows without one.
  virtual std::optional<int64_t> Find(absl::string_view key) const = 0;
  // The key of a row in [0, num_rows), valid as long as the vocabulary; empty if the row has none.
  virtual absl::string_view KeyOf(int64_t row) const = 0;
  // Rows whose keys start with prefix, in byte order of the keys, at most limit (>= 0).
  virtual std::vector<int64_t> WithPrefix(absl::string_view prefix, int64_t limit) const = 0;
  // Rows without a key.
  virtual int64_t rows_without_key() const = 0;
  // Rows among them whose key an earlier row bears (duplicate-keys=first).
  virtual int64_t duplicate_keys() const = 0;
};

// What becomes of keys that are not as they should be; by default they are refused.
struct KeyPolicy {
  bool skip_invalid = false;  // invalid-keys=skip: a row whose key is not valid UTF-8 has none
  bool first_keeps = false;  // duplicate-keys=first: of rows with the same key the first keeps it, the others have none
};

// Reads a vocabulary. A file whose name ends in .json: see json_vocabulary.h. Any other is text: line i is the key of
// row i; lines end with \n or \r\n, the last may lack it. Keys must be valid UTF-8 of 1 to 65,536 bytes, without NUL.
// expected_rows: V of the table. DATA_LOSS names the path, the line (counted from 1) and the reason: a count of keys
// other than V, an empty key, and, unless the policy lets them pass, a duplicate key (both lines) or invalid UTF-8.
absl::StatusOr<std::unique_ptr<const Vocabulary>> LoadVocabulary(const std::string& path, int64_t expected_rows,
                                                                 KeyPolicy policy);

}  // namespace embedding
