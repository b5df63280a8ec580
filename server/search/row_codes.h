// A table's rows as 8-bit codes (kernels/codes.h): what the cheapest candidate pass reads instead of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/mutex.h"
#include "server/exec/worker_pool.h"
#include "server/kernels/codes.h"
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

// Codes rows in any order. Begin first, then every row once with its norm (row_norms.h), then Finish.
class RowCodesBuilder {
 public:
  // Writes one row, as it lies in memory, to `to`: [dim] of dtype. False: it could not be read.
  using ReadRow = std::function<bool(int64_t row, std::byte* to)>;

  // Reads the sample, and takes the memory: RESOURCE_EXHAUSTED as BuildRowCodes. DATA_LOSS if read gave up.
  absl::Status Begin(Dtype dtype, int64_t num_rows, int64_t dim, const ReadRow& read);
  // rows: [num_rows, dim] of the dtype, unpadded, the first is row first_row of the table; norms: theirs. Thread-safe
  // for different rows.
  void Add(const std::byte* rows, int64_t first_row, int64_t num_rows, const float* norms);
  RowCodes Finish();

 private:
  absl::Status EstimateColumns(const ReadRow& read);
  // coded: [num_rows], what is known of each row.
  void Encode(const std::byte* rows, int64_t first_row, int64_t num_rows, CodedRow* coded);

  Dtype dtype_ = Dtype::kF32;
  int64_t num_rows_ = 0;
  int64_t dim_ = 0;
  std::shared_ptr<std::byte> bytes_;
  RowCodes codes_;  // alphas and errors: each written by whoever adds the row
  Mutex mutex_;
  float largest_code_norm_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int64_t> zero_rows_ ABSL_GUARDED_BY(mutex_);
};

// Reads the table once, in parallel. Not to be called from a worker of the pool.
// RESOURCE_EXHAUSTED if the system has no memory for the codes, or they do not fit beside the tables (OverBudgetOf).
// CANCELLED once stop, asked between blocks from any worker, says so.
absl::StatusOr<RowCodes> BuildRowCodes(const EmbeddingTable& table, const RowNorms& norms, WorkerPool& pool,
                                       const StopPredicate& stop = {});

}  // namespace embedding
