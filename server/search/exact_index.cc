#include "server/search/exact_index.h"

#include <utility>

#include "server/search/exact_search.h"
#include "server/search/row_norms.h"

namespace embedding {
namespace {

class ExactIndex final : public NeighbourIndex {
 public:
  ExactIndex(const EmbeddingTable& table, WorkerPool& pool) : table_(table), norms_(ComputeRowNorms(table, pool)) {}

  void Start(NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
             std::function<void(NeighbourResult)> done) const override {
    ExactSearch::Start(table_, norms_, std::move(query), pool, std::move(stop), std::move(done));
  }

 private:
  const EmbeddingTable& table_;
  const RowNorms norms_;
};

}  // namespace

std::unique_ptr<NeighbourIndex> BuildExactIndex(const EmbeddingTable& table, WorkerPool& pool) {
  return std::make_unique<ExactIndex>(table, pool);
}

}  // namespace embedding
