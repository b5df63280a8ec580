#include "server/search/exact_index.h"

#include <optional>
#include <utility>

#include "server/search/row_codes.h"
#include "server/search/row_norms.h"
#include "server/search/shared_passes.h"

namespace embedding {
namespace {

class ExactIndex final : public NeighbourIndex {
 public:
  ExactIndex(const EmbeddingTable& table, RowNorms norms, std::optional<RowCodes> codes, bool share_passes)
      : norms_(std::move(norms)),
        codes_(std::move(codes)),
        passes_({table, norms_, codes_.has_value() ? &*codes_ : nullptr}, share_passes) {}

  void Start(NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
             std::function<void(NeighbourResult)> done) const override {
    passes_.Start(std::move(query), pool, std::move(stop), std::move(done));
  }

  int64_t code_bytes() const override { return codes_.has_value() ? codes_->size_bytes : 0; }

 private:
  const RowNorms norms_;
  const std::optional<RowCodes> codes_;
  mutable SharedPasses passes_;  // thread-safe
};

}  // namespace

absl::StatusOr<std::unique_ptr<NeighbourIndex>> BuildExactIndex(const EmbeddingTable& table, bool with_codes,
                                                                WorkerPool& pool, const StopPredicate& stop,
                                                                bool share_passes) {
  RowNorms norms = ComputeRowNorms(table, pool, stop);
  if (stop && stop()) return absl::CancelledError("indexing was stopped");
  std::optional<RowCodes> codes;
  if (with_codes) {
    absl::StatusOr<RowCodes> built = BuildRowCodes(table, norms, pool, stop);
    if (!built.ok()) return built.status();
    codes = *std::move(built);
  }
  return std::make_unique<ExactIndex>(table, std::move(norms), std::move(codes), share_passes);
}

std::unique_ptr<NeighbourIndex> BuildExactIndex(const EmbeddingTable& table, WorkerPool& pool) {
  return std::make_unique<ExactIndex>(table, ComputeRowNorms(table, pool), std::nullopt, /*share_passes=*/true);
}

}  // namespace embedding
