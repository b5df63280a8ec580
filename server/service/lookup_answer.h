// Rows gathered straight into the bytes of an answer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "embedding/v1/embedding.pb.h"
#include "server/service/row_selection.h"
#include "server/table/embedding_table.h"

namespace embedding {

// Writes the rows rows.ids[first], ... rows.ids[first + count - 1] (each in [0, num_rows)) one behind the other, as
// output (F32, F16 or BF16). Rows of that dtype keep their bits; others are widened, or rounded to nearest even. to:
// [count, dim] elements of output, of any alignment. OUT_OF_RANGE (VALUE_OUT_OF_RANGE) for the first finite value that
// would become infinite; it names position, row, column and value.
absl::Status GatherRows(const EmbeddingTable& table, const RowSelection& rows, size_t first, size_t count,
                        v1::Dtype output, uint8_t* to);

}  // namespace embedding
