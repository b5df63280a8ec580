#include "server/search/hnsw_walk.h"

#include <algorithm>
#include <cmath>

#include "server/kernels/canonical.h"
#include "server/kernels/row_pairs.h"
#include "server/search/row_norms.h"

namespace embedding {

WalkQuery::WalkQuery(Metric metric, VectorView vector, int64_t dim) {
  std::vector<double> wide(static_cast<size_t>(dim));
  WidenToF64(vector.type, vector.data, wide.size(), wide.data());
  const void* row = wide.data();
  double squares = 0;
  CanonicalSquaredNorms(ElementType::kF64, &row, 1, wide.size(), &squares);
  const double norm = std::sqrt(squares);
  usable_ = norm >= kMinNorm && norm <= kMaxNorm;
  if (!usable_) return;
  const double scale = metric == Metric::kEuclidean ? 1 : 1 / norm;
  for (const double x : wide) values_.push_back(static_cast<float>(x * scale));
}

HnswWalk::HnswWalk(const EmbeddingTable& table, const HnswGraph& graph, const std::vector<float>& inverse_norms)
    : table_(table),
      graph_(graph),
      inverse_norms_(inverse_norms),
      visits_(static_cast<size_t>(graph.num_rows())),
      memory_(TableMemoryClaim::Note(static_cast<int64_t>(visits_.size() * sizeof(visits_[0])))),
      closeness_(graph.lowest_stride()) {}

void HnswWalk::ForgetVisits() {
  if (++epoch_ != 0) return;
  std::fill(visits_.begin(), visits_.end(), uint16_t{0});
  epoch_ = 1;
}

void HnswWalk::TakeUnvisited(const uint32_t* list) {
  ids_.clear();
  for (uint32_t j = 1; j <= list[0]; ++j) __builtin_prefetch(&visits_[list[j]], 1);
  for (uint32_t j = 1; j <= list[0]; ++j) {
    if (Visit(list[j])) ids_.push_back(list[j]);
  }
}

void HnswWalk::Score(const WalkQuery& query) {
  addresses_.clear();
  for (const uint32_t id : ids_) addresses_.push_back(table_.row(id));
  const ElementType type = ElementTypeOf(table_.dtype());
  const auto dim = static_cast<size_t>(table_.dim());
  const size_t count = ids_.size();
  rows_scored_ += static_cast<int64_t>(count);
  if (graph_.parameters().metric == Metric::kEuclidean) {
    SquaredL2ToRows(query.data(), type, addresses_.data(), count, dim, closeness_.data());
    for (size_t i = 0; i < count; ++i) closeness_[i] = -closeness_[i];
    return;
  }
  DotToRows(query.data(), type, addresses_.data(), count, dim, closeness_.data());
  if (inverse_norms_.empty()) return;
  for (size_t i = 0; i < count; ++i) closeness_[i] *= inverse_norms_[ids_[i]];
}

uint32_t HnswWalk::Descend(const WalkQuery& query, float* closeness) {
  auto at = static_cast<uint32_t>(graph_.entry());
  const auto& upper = graph_.upper();
  ids_.assign(1, upper.empty() ? at : upper.back().rows[at]);
  Score(query);
  *closeness = closeness_[0];
  for (size_t level = upper.size(); level >= 1; --level) {
    const HnswGraph::Level& here = upper[level - 1];
    for (bool moved = true; moved;) {
      moved = false;
      const uint32_t* list = graph_.UpperLinks(level, at);
      ids_.clear();
      for (uint32_t j = 1; j <= list[0]; ++j) ids_.push_back(here.rows[list[j]]);
      Score(query);
      for (uint32_t j = 1; j <= list[0]; ++j) {
        if (!(closeness_[j - 1] > *closeness)) continue;  // nor a NaN, which would move for ever
        *closeness = closeness_[j - 1];
        at = list[j];
        moved = true;
      }
    }
    at = here.below[at];
  }
  return at;
}

}  // namespace embedding
