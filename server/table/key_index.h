// Keys in one block of memory, found by hash and by prefix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/table/table_memory.h"
#include "server/table/vocabulary.h"

namespace embedding {

// Costs, beside the bytes of the keys: 8 bytes a row for offsets, 4 for the sorted order, and a hash table of 4-byte
// slots, between 8 and 16 bytes a row. (A node-based map of strings takes over 60.)
class KeyIndex final : public Vocabulary {
 public:
  // Rows that bear the same key.
  struct Duplicate {
    int64_t first_row = 0;
    int64_t second_row = 0;
    std::string key;
  };

  static constexpr int64_t kMaxRows = 0xFFFFFFFE;  // slots are 32 bits wide, one value means free

  // The key of row i is blob[offsets[i], offsets[i + 1]); empty: the row has no key. offsets: V + 1 ascending numbers,
  // from 0 to blob.size(); V <= kMaxRows. If two rows bear the same key: null with *duplicate filled, or, with
  // first_keeps, the first keeps it, the later one has none, and duplicate_keys() counts it.
  static std::unique_ptr<const KeyIndex> Create(std::string blob, std::vector<uint64_t> offsets, Duplicate* duplicate,
                                                bool first_keeps = false);

  int64_t num_rows() const override { return static_cast<int64_t>(offsets_.size()) - 1; }
  std::optional<int64_t> Find(absl::string_view key) const override;
  absl::string_view KeyOf(int64_t row) const override;
  std::vector<int64_t> WithPrefix(absl::string_view prefix, int64_t limit) const override;
  int64_t rows_without_key() const override { return num_rows() - static_cast<int64_t>(sorted_.size()); }
  int64_t duplicate_keys() const override { return duplicate_keys_; }

 private:
  KeyIndex(std::string blob, std::vector<uint64_t> offsets);

  // Fills slots_. With first_keeps, the rows that lose their keys are appended to losers; else false at the first
  // duplicate.
  bool HashKeys(bool first_keeps, Duplicate* duplicate, std::vector<int64_t>* losers);
  // Takes the keys of these rows, ascending, out of blob_.
  void DropKeys(const std::vector<int64_t>& rows);
  void SortKeys();

  std::string blob_;
  std::vector<uint64_t> offsets_;
  std::vector<uint32_t> slots_;  // open addressing, linear probing, a power of two, at most half full
  int64_t duplicate_keys_ = 0;
  TableMemoryClaim memory_;
  std::vector<uint32_t> sorted_;  // rows with a key, in byte order of the keys
};

}  // namespace embedding
