#include "server/search/exact_index.h"

#include <optional>
#include <utility>

#include "server/search/shared_passes.h"

namespace embedding {
namespace {

class ExactIndex final : public NeighbourIndex {
 public:
  ExactIndex(const EmbeddingTable& table, ExactRows rows, bool share_passes)
      : norms_(std::move(rows.norms)),
        codes_(std::move(rows.codes)),
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
  absl::StatusOr<ExactRows> rows =
      ComputeExactRows(table, with_codes ? CodesOption::kOn : CodesOption::kOff, pool, stop);
  if (!rows.ok()) return rows.status();
  return BuildExactIndex(table, *std::move(rows), share_passes);
}

std::unique_ptr<NeighbourIndex> BuildExactIndex(const EmbeddingTable& table, ExactRows rows, bool share_passes) {
  return std::make_unique<ExactIndex>(table, std::move(rows), share_passes);
}

std::unique_ptr<NeighbourIndex> BuildExactIndex(const EmbeddingTable& table, WorkerPool& pool) {
  return std::make_unique<ExactIndex>(table, ExactRows{ComputeRowNorms(table, pool), std::nullopt},
                                      /*share_passes=*/true);
}

}  // namespace embedding
