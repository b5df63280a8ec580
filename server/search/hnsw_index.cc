#include "server/search/hnsw_index.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/search/hnsw_file.h"
#include "server/search/hnsw_search.h"

namespace embedding {
namespace {

class HnswIndex final : public NeighbourIndex {
 public:
  HnswIndex(const EmbeddingTable& table, std::unique_ptr<NeighbourIndex> exact, HnswParts parts)
      : table_(table),
        exact_(std::move(exact)),
        outsiders_(std::move(parts.outsiders)),
        rows_(std::move(parts.rows)),
        graph_(std::move(parts.graph)),
        facts_(parts.facts),
        walks_(rows_, graph_) {}

  void Start(NeighbourQuery query, WorkerPool& pool, StopPredicate stop,
             std::function<void(NeighbourResult)> done) const override {
    if (!query.effort.has_value() || query.metric != facts_.metric || graph_.entry() < 0 || query.queries.empty()) {
      query.effort = std::nullopt;
      return exact_->Start(std::move(query), pool, std::move(stop), std::move(done));
    }
    HnswSearch::Start({table_, graph_, outsiders_, rows_, *exact_, walks_}, std::move(query), pool, std::move(stop),
                      std::move(done));
  }

  int64_t code_bytes() const override { return exact_->code_bytes(); }
  const GraphFacts* graph() const override { return &facts_; }

 private:
  const EmbeddingTable& table_;
  const std::unique_ptr<NeighbourIndex> exact_;
  const HnswOutsiders outsiders_;
  const HnswRows rows_;
  const HnswGraph graph_;
  const GraphFacts facts_;
  mutable WalkStore walks_;
};

// A file may be whole and yet not ours: a walk trusts that it comes by rows of the graph alone.
absl::Status CheckLinks(const HnswGraph& graph, const HnswOutsiders& outsiders) {
  const auto is_inside = [&outsiders](uint32_t row) { return outsiders.inside[row]; };
  bool all_inside = true;
  for (uint32_t row = 0; all_inside && row < graph.num_rows(); ++row) {
    const uint32_t* list = graph.Links(row);
    all_inside = (list[0] == 0 || is_inside(row)) && std::all_of(list + 1, list + 1 + list[0], is_inside);
  }
  for (const HnswGraph::Level& level : graph.upper()) {
    all_inside = all_inside && std::all_of(level.rows.begin(), level.rows.end(), is_inside);
  }
  if (graph.upper().empty() && graph.entry() >= 0) {
    all_inside = all_inside && is_inside(static_cast<uint32_t>(graph.entry()));
  }
  return all_inside ? absl::OkStatus() : absl::DataLossError("is broken: it links to a row that is not in the graph");
}

// What follows from the rows alone.
struct LookedOver {
  HnswOutsiders outsiders;
  HnswRows rows;
};

absl::StatusOr<LookedOver> LookOver(const EmbeddingTable& table, Metric metric, WorkerPool& pool,
                                    const StopPredicate& stop) {
  const RowNorms norms = ComputeRowNorms(table, pool, stop);
  if (stop && stop()) return absl::CancelledError("indexing was stopped");
  absl::StatusOr<HnswOutsiders> outsiders = FindOutsiders(table, norms, pool, stop);
  if (!outsiders.ok()) return outsiders.status();
  absl::StatusOr<HnswRows> rows = HnswRows::Build(table, metric, norms, outsiders->inside, pool, stop);
  if (!rows.ok()) return rows.status();
  return LookedOver{*std::move(outsiders), *std::move(rows)};
}

HnswParts PartsOf(LookedOver seen, HnswGraph graph, std::chrono::steady_clock::time_point begin, bool from_file) {
  GraphFacts facts = {graph.parameters().metric, graph.parameters().m, graph.parameters().ef_construction,
                      graph.size_bytes() + seen.rows.size_bytes()};
  facts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  facts.from_file = from_file;
  return HnswParts{std::move(seen.outsiders), std::move(seen.rows), std::move(graph), facts};
}

}  // namespace

absl::StatusOr<HnswParts> BuildHnswParts(const EmbeddingTable& table, const HnswParameters& parameters,
                                         WorkerPool& pool, const StopPredicate& stop, const HnswProgress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<LookedOver> seen = LookOver(table, parameters.metric, pool, stop);
  if (!seen.ok()) return seen.status();
  absl::StatusOr<HnswGraph> graph = BuildHnswGraph(seen->rows, seen->outsiders, parameters, pool, stop, progress);
  if (!graph.ok()) return graph.status();
  return PartsOf(*std::move(seen), *std::move(graph), begin, /*from_file=*/false);
}

absl::StatusOr<HnswParts> ReadHnswParts(const EmbeddingTable& table, const std::string& path,
                                        const HnswParameters& parameters, WorkerPool& pool, const StopPredicate& stop) {
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<HnswGraph> graph = ReadHnswFile(path, table.fingerprint(), parameters, table.num_rows());
  if (!graph.ok()) return graph.status();
  absl::StatusOr<LookedOver> seen = LookOver(table, parameters.metric, pool, stop);
  if (!seen.ok()) return seen.status();
  if (absl::Status s = CheckLinks(*graph, seen->outsiders); !s.ok()) return s;
  return PartsOf(*std::move(seen), *std::move(graph), begin, /*from_file=*/true);
}

std::unique_ptr<NeighbourIndex> MakeHnswIndex(const EmbeddingTable& table, std::unique_ptr<NeighbourIndex> exact,
                                              HnswParts parts) {
  return std::make_unique<HnswIndex>(table, std::move(exact), std::move(parts));
}

}  // namespace embedding
