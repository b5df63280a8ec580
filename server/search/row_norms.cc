#include "server/search/row_norms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/kernels/canonical.h"
#include "server/search/scan_blocks.h"

namespace embedding {

void NormsOfRows(ElementType type, const std::byte* rows, int64_t num_rows, int64_t dim, float* norms) {
  constexpr int64_t kGroup = 64;
  const size_t row_bytes = static_cast<size_t>(dim) * ElementSize(type);
  const void* of_group[kGroup];
  double squares[kGroup];
  for (int64_t first = 0; first < num_rows; first += kGroup) {
    const auto n = static_cast<size_t>(std::min(kGroup, num_rows - first));
    for (size_t i = 0; i < n; ++i) of_group[i] = rows + (static_cast<size_t>(first) + i) * row_bytes;
    CanonicalSquaredNorms(type, of_group, n, static_cast<size_t>(dim), squares);
    for (size_t i = 0; i < n; ++i) {
      const double norm = squares[i] == 0 ? kMinNorm : std::sqrt(squares[i]);
      const bool judged = norm >= kMinNorm && norm <= kMaxNorm;  // false for NaN
      norms[static_cast<size_t>(first) + i] =
          judged ? static_cast<float>(norm) : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

std::vector<int64_t> UnjudgedRows(const EmbeddingTable& table, const std::vector<float>& norms) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    if (std::isnan(norms[static_cast<size_t>(row)]) && table.IsFinite(row)) rows.push_back(row);
  }
  return rows;
}

RowNorms ComputeRowNorms(const EmbeddingTable& table, WorkerPool& pool, const StopPredicate& stop) {
  constexpr int64_t kBlockRows = 64;
  RowNorms result;
  result.norms.resize(static_cast<size_t>(table.num_rows()));
  result.memory = TableMemoryClaim::Note(table.num_rows() * static_cast<int64_t>(sizeof(float)));
  BlockCounter blocks(table.num_rows(), kBlockRows);
  pool.RunAndWait(pool.num_threads(), [&](int) {
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) {
      NormsOfRows(ElementTypeOf(table.dtype()), table.row(begin), end - begin, table.dim(),
                  result.norms.data() + begin);
    }
  });
  result.unjudged = UnjudgedRows(table, result.norms);
  return result;
}

}  // namespace embedding
