// Approximate searches of ours (hnsw_arm.h says how it is asked), through the interface that the server calls:
// canonical scores are part of what is timed. EFFORT 0 searches exactly.
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "server/search/exact_index.h"
#include "server/search/hnsw_index.h"
#include "server/table/private_memory.h"
#include "tests/bench/hnsw_arm.h"

namespace embedding::bench {
namespace {

std::unique_ptr<EmbeddingTable> ReadTable(const HnswArguments& arguments) {
  const size_t size = static_cast<size_t>(arguments.num_rows * arguments.dim) * sizeof(float);
  std::shared_ptr<std::byte> rows = AllocatePrivate(size).value();
  ReadFile(arguments.rows_file, reinterpret_cast<char*>(rows.get()), size);
  EmbeddingTable::Parts parts;
  parts.name = "bench";
  parts.num_rows = arguments.num_rows;
  parts.dim = arguments.dim;
  parts.rows = std::move(rows);
  return std::make_unique<EmbeddingTable>(std::move(parts));
}

class Ours {
 public:
  explicit Ours(const HnswArguments& arguments)
      : arguments_(arguments),
        table_(ReadTable(arguments)),
        pool_(arguments.threads),
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
      std::promise<NeighbourResult> promise;
      index_->Start(std::move(query), pool_, {}, [&](NeighbourResult found) { promise.set_value(std::move(found)); });
      const NeighbourResult result = promise.get_future().get();
      if (ids == nullptr) continue;
      for (const auto& neighbours : result.neighbours) {
        ids->emplace_back();
        for (const Neighbour& neighbour : neighbours) ids->back().push_back(neighbour.id);
      }
    }
  }

 private:
  const HnswArguments& arguments_;
  size_t per_call_ = 1024;  // as many as the server takes
  const std::unique_ptr<EmbeddingTable> table_;
  WorkerPool pool_;
  std::unique_ptr<NeighbourIndex> index_;
};

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  const embedding::bench::HnswArguments arguments = embedding::bench::ParseHnswArguments(argc, argv);
  embedding::bench::Ours ours(arguments);
  return embedding::bench::AnswerCommands(ours, arguments.num_queries());
}
