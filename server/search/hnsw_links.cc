#include "server/search/hnsw_links.h"

#include <algorithm>

namespace embedding {

void LinkChooser::JudgeCandidates(const HnswGraph& graph, size_t level, uint32_t row) {
  ids_.clear();
  for (const WalkedRow& candidate : candidates_) {
    ids_.push_back(graph.RowOf(level, candidate.row));
    rows_.Prefetch(ids_.back());
  }
  closeness_.resize(ids_.size());
  query_.SetRow(graph.RowOf(level, row));
  rows_.Judge(query_, ids_.data(), ids_.size(), closeness_.data());
  for (size_t i = 0; i < ids_.size(); ++i) candidates_[i].closeness = closeness_[i];
  std::sort(candidates_.begin(), candidates_.end(), IsWalkedFirst);
}

std::span<const WalkedRow> LinkChooser::Choose(const HnswGraph& graph, size_t level,
                                               std::span<const WalkedRow> candidates, size_t most) {
  if (candidates.size() <= most) return candidates;
  chosen_.clear();
  while (chosen_queries_.size() < most) chosen_queries_.emplace_back(rows_);
  for (const WalkedRow& candidate : candidates) {
    if (chosen_.size() == most) break;
    const uint32_t row = graph.RowOf(level, candidate.row);
    bool is_apart = true;
    for (size_t i = 0; is_apart && i < chosen_.size(); ++i) {
      float closeness;
      rows_.Judge(chosen_queries_[i], &row, 1, &closeness);
      is_apart = !(closeness > candidate.closeness);
    }
    if (!is_apart) continue;
    chosen_queries_[chosen_.size()].SetRow(row);
    chosen_.push_back(candidate);
  }
  return chosen_;
}

}  // namespace embedding
