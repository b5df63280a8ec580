// Rows of a table, by their ids, one behind the other: as they are stored, widened or narrowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/table/dtype.h"
#include "server/table/embedding_table.h"

namespace embedding {

// A finite value that would become infinite in the dtype asked for.
struct ValueOverflow {
  size_t position;  // in ids
  int64_t column;
  float value;
};

// Writes row ids[i] as output to element i * dim of `to`, for i in [0, ids.size()).
// ids: each in [0, num_rows). output: the table's dtype, F32, F16 or BF16. to: [ids.size(), dim] elements of output, of
// any alignment. Rows of the table's own dtype keep their bits; F32 is exact; F16 and BF16 are rounded to nearest even.
// Returns the first value that does not fit, in order of ids; what `to` holds is then unspecified. Thread-safe.
std::optional<ValueOverflow> GatherRows(const EmbeddingTable& table, std::span<const int64_t> ids, Dtype output,
                                        std::byte* to);

// The same of the first `columns` columns of each row: element i * columns of `to` begins row ids[i].
// columns: in [1, dim].
std::optional<ValueOverflow> GatherColumns(const EmbeddingTable& table, std::span<const int64_t> ids, size_t columns,
                                           Dtype output, std::byte* to);

// The largest finite value of F32, F16 or BF16.
double LargestFinite(Dtype dtype);

}  // namespace embedding
