// A table's rows as 8-bit codes (kernels/codes.h): what the cheapest candidate pass reads instead of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/search/row_norms.h"
#include "server/table/embedding_table.h"
#include "server/table/table_memory.h"

namespace embedding {

// y_j = (x_j - mean_j) * inverse_scale_j. The mean is taken off where the rows share much of it; the scales make
// columns alike, so that a few large ones do not use up the codes of all others. Both come from a sample of the rows:
// they decide how tight the bounds are, never whether they hold.
struct RowCodes {
  std::shared_ptr<const std::byte> bytes;  // [num_rows, dim], unpadded, and kCodeSlack more
  std::vector<float> alphas;               // [num_rows]
  std::vector<float> errors;               // [num_rows]; NaN where the codes may not judge a row: zeros, and norms NaN
  float largest_code_norm = 0;             // at least |c| of every row
  std::vector<float> mean;                 // [dim]
  std::vector<float> inverse_scale;        // [dim], > 0
  double mean_norm = 0;                    // at least |mean|
  std::vector<int64_t> zero_rows;          // ascending

  int64_t size_bytes = 0;   // of the codes
  TableMemoryClaim memory;  // of what is known of each row
};

// Reads the table once (twice where rows are not F32), in parallel. Not to be called from a worker of the pool.
// RESOURCE_EXHAUSTED if the system has no memory for the codes, or they do not fit beside the tables (OverBudgetOf).
// CANCELLED once stop, asked between blocks from any worker, says so.
absl::StatusOr<RowCodes> BuildRowCodes(const EmbeddingTable& table, const RowNorms& norms, WorkerPool& pool,
                                       const StopPredicate& stop = {});

}  // namespace embedding
