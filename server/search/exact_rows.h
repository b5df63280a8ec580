// What an exact search needs to know of each row, found out in one pass over the rows: while a table is loaded, or
// later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/search/row_codes.h"
#include "server/search/row_norms.h"
#include "server/table/embedding_table.h"
#include "server/table/row_observer.h"
#include "server/table/table_options.h"

namespace embedding {

struct ExactRows {
  RowNorms norms;
  std::optional<RowCodes> codes;
};

// Whether rows of dtype get codes: kAuto means F32 only.
bool WantsCodes(CodesOption option, Dtype dtype);

// Given to LoadTable, it works on rows that are in the cache. The result is the same to the bit as that of
// ComputeExactRows.
class ExactRowsBuilder final : public RowObserver {
 public:
  explicit ExactRowsBuilder(CodesOption codes) : codes_option_(codes) {}

  void Begin(const Shape& shape, const ReadRow& read) override;
  void Add(const std::byte* rows, int64_t first_row, int64_t num_rows) override;

  // After Begin: RESOURCE_EXHAUSTED if there is no memory for the codes, as BuildRowCodes says; DATA_LOSS if a row of
  // the sample could not be read. Add then does nothing.
  const absl::Status& status() const { return status_; }
  // Whether all rows were seen, so that Take may be called, once.
  bool complete() const;
  // table: the one whose rows were added.
  ExactRows Take(const EmbeddingTable& table);

 private:
  const CodesOption codes_option_;
  Shape shape_;
  absl::Status status_;
  RowNorms norms_;
  std::optional<RowCodesBuilder> codes_;
  std::atomic<int64_t> rows_seen_{0};
};

// Reads a table that is in memory once, in parallel (not from a worker of the pool). RESOURCE_EXHAUSTED as above;
// CANCELLED once stop, asked between blocks from any worker, says so.
absl::StatusOr<ExactRows> ComputeExactRows(const EmbeddingTable& table, CodesOption codes, WorkerPool& pool,
                                           const StopPredicate& stop);

}  // namespace embedding
