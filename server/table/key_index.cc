#include "server/table/key_index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>

#include "absl/strings/match.h"

namespace embedding {
namespace {

constexpr uint32_t kFree = 0xFFFFFFFF;

// The first 8 bytes as a number that orders as the bytes do.
uint64_t Head(absl::string_view key) {
  unsigned char bytes[8] = {};
  std::memcpy(bytes, key.data(), std::min<size_t>(key.size(), sizeof(bytes)));
  uint64_t head = 0;
  for (const unsigned char byte : bytes) head = head << 8 | byte;
  return head;
}

}  // namespace

std::unique_ptr<const KeyIndex> KeyIndex::Create(std::string blob, std::vector<uint64_t> offsets, Duplicate* duplicate,
                                                 bool first_keeps) {
  assert(!offsets.empty() && offsets.back() == blob.size());
  std::unique_ptr<KeyIndex> index(new KeyIndex(std::move(blob), std::move(offsets)));
  std::vector<int64_t> losers;
  if (!index->HashKeys(first_keeps, duplicate, &losers)) return nullptr;
  if (!losers.empty()) index->DropKeys(losers);
  index->SortKeys();
  index->memory_ = TableMemoryClaim::Note(
      static_cast<int64_t>(index->blob_.capacity() + index->offsets_.capacity() * sizeof(uint64_t) +
                           (index->slots_.capacity() + index->sorted_.capacity()) * sizeof(uint32_t)));
  return index;
}

KeyIndex::KeyIndex(std::string blob, std::vector<uint64_t> offsets)
    : blob_(std::move(blob)), offsets_(std::move(offsets)) {}

bool KeyIndex::HashKeys(bool first_keeps, Duplicate* duplicate, std::vector<int64_t>* losers) {
  slots_.assign(std::bit_ceil(static_cast<size_t>(num_rows()) * 2 + 1), kFree);
  const size_t mask = slots_.size() - 1;
  for (int64_t row = 0; row < num_rows(); ++row) {
    const absl::string_view key = KeyOf(row);
    if (key.empty()) continue;
    size_t slot = XXH3_64bits(key.data(), key.size()) & mask;
    while (slots_[slot] != kFree && KeyOf(slots_[slot]) != key) slot = (slot + 1) & mask;
    if (slots_[slot] == kFree) {
      slots_[slot] = static_cast<uint32_t>(row);
    } else if (first_keeps) {
      losers->push_back(row);
    } else {
      *duplicate = {.first_row = slots_[slot], .second_row = row, .key = std::string(key)};
      return false;
    }
  }
  return true;
}

void KeyIndex::DropKeys(const std::vector<int64_t>& rows) {
  duplicate_keys_ = static_cast<int64_t>(rows.size());
  auto next = rows.begin();
  uint64_t kept = 0;
  for (int64_t row = 0; row < num_rows(); ++row) {
    const uint64_t begin = offsets_[static_cast<size_t>(row)];
    const uint64_t size = offsets_[static_cast<size_t>(row) + 1] - begin;
    offsets_[static_cast<size_t>(row)] = kept;
    if (next != rows.end() && *next == row) {
      ++next;
      continue;
    }
    std::memmove(blob_.data() + kept, blob_.data() + begin, size);
    kept += size;
  }
  offsets_.back() = kept;
  blob_.resize(kept);
}

void KeyIndex::SortKeys() {
  // Most comparisons end within the first bytes; beside the row they need no second look into the keys' memory.
  struct Entry {
    uint64_t head;
    uint32_t row;
  };
  std::vector<Entry> entries;
  entries.reserve(static_cast<size_t>(num_rows()));
  for (int64_t row = 0; row < num_rows(); ++row) {
    const absl::string_view key = KeyOf(row);
    if (!key.empty()) entries.push_back({Head(key), static_cast<uint32_t>(row)});
  }
  std::sort(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
    return a.head != b.head ? a.head < b.head : KeyOf(a.row) < KeyOf(b.row);
  });
  sorted_.reserve(entries.size());
  for (const Entry& entry : entries) sorted_.push_back(entry.row);
}

std::optional<int64_t> KeyIndex::Find(absl::string_view key) const {
  if (key.empty()) return std::nullopt;
  const size_t mask = slots_.size() - 1;
  for (size_t slot = XXH3_64bits(key.data(), key.size()) & mask; slots_[slot] != kFree; slot = (slot + 1) & mask) {
    if (KeyOf(slots_[slot]) == key) return slots_[slot];
  }
  return std::nullopt;
}

absl::string_view KeyIndex::KeyOf(int64_t row) const {
  assert(row >= 0 && row < num_rows());
  const uint64_t begin = offsets_[static_cast<size_t>(row)];
  return absl::string_view(blob_.data() + begin, offsets_[static_cast<size_t>(row) + 1] - begin);
}

std::vector<int64_t> KeyIndex::WithPrefix(absl::string_view prefix, int64_t limit) const {
  std::vector<int64_t> rows;
  auto next = std::lower_bound(sorted_.begin(), sorted_.end(), prefix,
                               [this](uint32_t row, absl::string_view wanted) { return KeyOf(row) < wanted; });
  for (; next != sorted_.end() && static_cast<int64_t>(rows.size()) < limit; ++next) {
    if (!absl::StartsWith(KeyOf(*next), prefix)) break;
    rows.push_back(*next);
  }
  return rows;
}

}  // namespace embedding
