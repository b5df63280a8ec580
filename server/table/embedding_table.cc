#include "server/table/embedding_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/table/fingerprint.h"
#include "server/table/key_index.h"
#include "server/table/private_memory.h"
#include "server/table/row_check.h"

namespace embedding {

EmbeddingTable::EmbeddingTable(Parts parts)
    : parts_(std::move(parts)), row_bytes_(static_cast<size_t>(parts_.dim) * DtypeSize(parts_.dtype)) {
  assert(parts_.num_rows >= 1 && parts_.dim >= 1);
  assert(parts_.dtype != Dtype::kF64);
  assert(parts_.rows != nullptr);
  assert(parts_.vocabulary == nullptr || parts_.vocabulary->num_rows() == parts_.num_rows);
}

bool EmbeddingTable::IsFinite(int64_t row) const {
  return !std::binary_search(parts_.non_finite_rows.begin(), parts_.non_finite_rows.end(), row);
}

std::unique_ptr<EmbeddingTable> TableFromMemory(const std::string& name, Dtype dtype, int64_t num_rows, int64_t dim,
                                                const void* bytes, std::vector<std::string> keys, int64_t default_row) {
  EmbeddingTable::Parts parts;
  parts.name = name;
  parts.num_rows = num_rows;
  parts.dim = dim;
  parts.dtype = dtype;
  parts.source_dtype = dtype;
  parts.format = TableFormat::kRaw;
  parts.default_row = default_row;

  const size_t size = static_cast<size_t>(num_rows) * static_cast<size_t>(dim) * DtypeSize(dtype);
  std::shared_ptr<std::byte> rows = AllocatePrivate(size).value();
  std::memcpy(rows.get(), bytes, size);

  if (!keys.empty()) {
    assert(static_cast<int64_t>(keys.size()) == num_rows);
    std::string blob;
    std::vector<uint64_t> offsets = {0};
    for (const std::string& key : keys) {
      blob += key;
      offsets.push_back(blob.size());
    }
    KeyIndex::Duplicate duplicate;
    parts.vocabulary = KeyIndex::Create(std::move(blob), std::move(offsets), &duplicate);
    assert(parts.vocabulary != nullptr);
  }

  std::vector<BlockDigest> digests;
  BlockHasher hasher;
  for (size_t begin = 0; begin < size; begin += kFingerprintBlockBytes) {
    hasher.Reset();
    hasher.Update(rows.get() + begin, std::min(kFingerprintBlockBytes, size - begin));
    digests.push_back(hasher.Digest());
  }
  parts.fingerprint = Fingerprint(dtype, num_rows, dim, digests, parts.vocabulary.get());

  RowCheck check(ElementTypeOf(dtype), dim);
  check.Add(rows.get(), 0, num_rows);
  parts.zero_rows = check.zero_rows();
  parts.non_finite_rows = check.TakeNonFiniteRows();
  parts.rows = std::move(rows);
  return std::make_unique<EmbeddingTable>(std::move(parts));
}

}  // namespace embedding
