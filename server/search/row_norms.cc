#include "server/search/row_norms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/kernels/canonical.h"
#include "server/search/scan_blocks.h"

namespace embedding {

RowNorms ComputeRowNorms(const EmbeddingTable& table, WorkerPool& pool, const StopPredicate& stop) {
  constexpr int64_t kBlockRows = 64;
  const int64_t num_rows = table.num_rows();
  const ElementType type = ElementTypeOf(table.dtype());
  RowNorms result;
  result.norms.resize(static_cast<size_t>(num_rows));
  result.memory = TableMemoryClaim::Note(num_rows * static_cast<int64_t>(sizeof(float)));

  BlockCounter blocks(num_rows, kBlockRows);
  pool.RunAndWait(pool.num_threads(), [&](int) {
    const void* rows[kBlockRows];
    double squares[kBlockRows];
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) {
      const int64_t n = end - begin;
      for (int64_t i = 0; i < n; ++i) rows[i] = table.row(begin + i);
      CanonicalSquaredNorms(type, rows, static_cast<size_t>(n), static_cast<size_t>(table.dim()), squares);
      for (int64_t i = 0; i < n; ++i) {
        const double norm = squares[i] == 0 ? kMinNorm : std::sqrt(squares[i]);
        const bool judged = norm >= kMinNorm && norm <= kMaxNorm;  // false for NaN
        result.norms[static_cast<size_t>(begin + i)] =
            judged ? static_cast<float>(norm) : std::numeric_limits<float>::quiet_NaN();
      }
    }
  });

  for (int64_t row = 0; row < num_rows; ++row) {
    if (std::isnan(result.norms[static_cast<size_t>(row)]) && table.IsFinite(row)) result.unjudged.push_back(row);
  }
  return result;
}

}  // namespace embedding
