// Rows from a file into private memory, in one pass: read, brought to the machine's form, hashed and scanned while they
// are in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/table/fingerprint.h"
#include "server/table/load_table.h"
#include "server/table/row_layout.h"
#include "server/table/row_observer.h"
#include "server/table/source_file.h"

namespace embedding {

struct LoadedRows {
  std::shared_ptr<const std::byte> bytes;  // num_rows * dim elements of dtype, unpadded
  Dtype dtype = Dtype::kF32;               // the layout's, but F32 for F64
  std::vector<BlockDigest> digests;        // one for each kFingerprintBlockBytes of bytes
  int64_t zero_rows = 0;
  std::vector<int64_t> non_finite_rows;  // ascending
};

// Reads on all threads of the pool (not from one of its workers). The layout must lie inside the file.
// DATA_LOSS: a read error, the file became shorter, a row whose own width (layout.has_row_widths) is not dim, an F64
// value beyond F32's range, or, unless allow_non_finite, a NaN or an infinity (first row and column, and how many
// values there are). RESOURCE_EXHAUSTED: no memory for the rows.
// CANCELLED: stopped. observer: shown the rows; null: nobody is.
absl::StatusOr<LoadedRows> LoadRows(const SourceFile& file, const RowLayout& layout, bool allow_non_finite,
                                    WorkerPool& pool, const LoadProgress& progress, RowObserver* observer = nullptr);

// As LoadRows for rows that are in memory already: hashes and scans rows, [num_rows, dim] of dtype, and takes them
// over.
absl::StatusOr<LoadedRows> ScanRows(std::shared_ptr<std::byte> rows, Dtype dtype, int64_t num_rows, int64_t dim,
                                    bool allow_non_finite, WorkerPool& pool, RowObserver* observer = nullptr);

}  // namespace embedding
