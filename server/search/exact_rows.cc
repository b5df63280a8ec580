#include "server/search/exact_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/search/scan_blocks.h"

namespace embedding {
namespace {

// Norms and codes take their turns at so many bytes of rows, which the first brings into the cache nearest to the core.
constexpr int64_t kTurnBytes = int64_t{32} << 10;
// What a lane takes at once.
constexpr int64_t kBlockBytes = int64_t{256} << 10;

}  // namespace

bool WantsCodes(CodesOption option, Dtype dtype) {
  return option == CodesOption::kOn || (option == CodesOption::kAuto && dtype == Dtype::kF32);
}

void ExactRowsBuilder::Begin(const Shape& shape, const ReadRow& read) {
  shape_ = shape;
  norms_.norms.resize(static_cast<size_t>(shape.num_rows));
  norms_.memory = TableMemoryClaim::Note(shape.num_rows * static_cast<int64_t>(sizeof(float)));
  if (!WantsCodes(codes_option_, shape.dtype)) return;
  codes_.emplace();
  status_ = codes_->Begin(shape.dtype, shape.num_rows, shape.dim,
                          [&](int64_t row, std::byte* to) { return read(row, to).ok(); });
  if (status_.ok()) return;
  // Whoever computes the rest later needs the room.
  codes_.reset();
  norms_ = {};
}

void ExactRowsBuilder::Add(const std::byte* rows, int64_t first_row, int64_t num_rows) {
  if (!status_.ok()) return;
  const ElementType type = ElementTypeOf(shape_.dtype);
  const int64_t row_bytes = shape_.dim * static_cast<int64_t>(ElementSize(type));
  const int64_t turn = std::max<int64_t>(1, kTurnBytes / row_bytes);
  for (int64_t done = 0; done < num_rows; done += turn) {
    const int64_t n = std::min(turn, num_rows - done);
    const std::byte* from = rows + done * row_bytes;
    float* norms = norms_.norms.data() + first_row + done;
    NormsOfRows(type, from, n, shape_.dim, norms);
    if (codes_.has_value()) codes_->Add(from, first_row + done, n, norms);
  }
  rows_seen_.fetch_add(num_rows, std::memory_order_relaxed);
}

bool ExactRowsBuilder::complete() const {
  return status_.ok() && shape_.num_rows > 0 && rows_seen_.load(std::memory_order_relaxed) == shape_.num_rows;
}

ExactRows ExactRowsBuilder::Take(const EmbeddingTable& table) {
  norms_.unjudged = UnjudgedRows(table, norms_.norms);
  ExactRows rows{std::move(norms_), std::nullopt};
  if (codes_.has_value()) rows.codes = codes_->Finish();
  return rows;
}

absl::StatusOr<ExactRows> ComputeExactRows(const EmbeddingTable& table, CodesOption codes, WorkerPool& pool,
                                           const StopPredicate& stop) {
  ExactRowsBuilder builder(codes);
  const auto read = [&](int64_t row, std::byte* to) {
    std::memcpy(to, table.row(row), table.row_bytes());
    return absl::OkStatus();
  };
  builder.Begin({table.dtype(), table.num_rows(), table.dim()}, read);
  if (!builder.status().ok()) return builder.status();
  BlockCounter blocks(table.num_rows(), std::max<int64_t>(1, kBlockBytes / static_cast<int64_t>(table.row_bytes())));
  pool.RunAndWait(pool.num_threads(), [&](int) {
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) builder.Add(table.row(begin), begin, end - begin);
  });
  if (!builder.complete()) return absl::CancelledError("indexing was stopped");
  return builder.Take(table);
}

}  // namespace embedding
