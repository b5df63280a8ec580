// Approximate searches of ours (hnsw_arm.h says how it is asked), through the interface that the server calls:
// canonical scores are part of what is timed. EFFORT 0 searches exactly.
#include <memory>
#include <utility>

#include "server/search/exact_index.h"
#include "server/search/hnsw_index.h"
#include "tests/bench/hnsw_arm.h"
#include "tests/bench/raw_table.h"
#include "tests/server/search/search_testing.h"

namespace embedding::bench {
namespace {

class Ours {
 public:
  explicit Ours(const HnswArguments& arguments)
      : arguments_(arguments),
        pool_(arguments.threads),
        table_(ReadTable(arguments.rows_file, arguments.num_rows, arguments.dim, pool_)),
        index_(BuildExactIndex(*table_, /*with_codes=*/true, pool_).value()) {}

  void Build() {
    index_.reset();
    auto parts = BuildHnswParts(*table_, {Metric::kDot, arguments_.m, arguments_.ef_construction}, pool_);
    index_ = MakeHnswIndex(*table_, BuildExactIndex(*table_, /*with_codes=*/true, pool_).value(), *std::move(parts));
  }

  void SetQueriesPerCall(size_t count) { per_call_ = count; }

  void Search(size_t effort, size_t k, Ids* ids) {
    for (size_t begin = 0; begin < arguments_.num_queries(); begin += per_call_) {
      NeighbourQuery query;
      query.metric = Metric::kDot;
      query.k = static_cast<int64_t>(k);
      if (effort > 0) query.effort = static_cast<int64_t>(effort);
      for (size_t q = begin; q < arguments_.num_queries() && q < begin + per_call_; ++q) {
        query.queries.push_back(
            {arguments_.queries.data() + q * static_cast<size_t>(arguments_.dim), ElementType::kF32});
      }
      const NeighbourResult result = testing::Search(*index_, std::move(query), pool_);
      if (ids != nullptr) AppendIds(result, ids);
    }
  }

 private:
  const HnswArguments& arguments_;
  size_t per_call_ = 1024;  // as many as the server takes
  WorkerPool pool_;
  const std::unique_ptr<EmbeddingTable> table_;
  std::unique_ptr<NeighbourIndex> index_;
};

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) { return embedding::bench::RunHnswArm<embedding::bench::Ours>(argc, argv); }
