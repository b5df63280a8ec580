// What compares the tables of two replicas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/table/dtype.h"
#include "server/table/vocabulary.h"

namespace embedding {

// Rows are hashed in blocks of this many bytes (the last may be shorter), so that many threads can share the work.
inline constexpr size_t kFingerprintBlockBytes = size_t{4} << 20;

// XXH3-128 in its canonical, big-endian form.
using BlockDigest = std::array<unsigned char, 16>;

// Hashes one block piece by piece, so that bytes are hashed while they are still in the cache. For one thread.
class BlockHasher {
 public:
  BlockHasher();
  ~BlockHasher();
  BlockHasher(const BlockHasher&) = delete;
  BlockHasher& operator=(const BlockHasher&) = delete;

  // Begins a block.
  void Reset();
  void Update(const void* bytes, size_t count);
  BlockDigest Digest() const;

 private:
  void* state_;  // XXH3_state_t, which only fingerprint.cc knows
};

// 32 lower-case hex digits: XXH3-128 over the dtype's name, a NUL, V and d (u64 little-endian), the digest of each
// block in order, then each key in row order after its u64 little-endian length (0 for a row without one). A table
// without a vocabulary appends no keys. dtype: of the rows in memory. vocabulary: null if there is none.
std::string Fingerprint(Dtype dtype, int64_t num_rows, int64_t dim, const std::vector<BlockDigest>& digests,
                        const Vocabulary* vocabulary);

}  // namespace embedding
