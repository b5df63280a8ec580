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

bool LinkChooser::IsApart(uint32_t row, float closeness) {
  // Most rows are refused by one of the first.
  constexpr size_t kPiece = 8;
  float of_chosen[kPiece];
  query_.SetRow(row);
  for (size_t begin = 0; begin < ids_.size(); begin += kPiece) {
    const size_t count = std::min(kPiece, ids_.size() - begin);
    rows_.Judge(query_, ids_.data() + begin, count, of_chosen);
    if (std::any_of(of_chosen, of_chosen + count, [closeness](float c) { return c > closeness; })) return false;
  }
  return true;
}

std::span<const WalkedRow> LinkChooser::Choose(const HnswGraph& graph, size_t level,
                                               std::span<const WalkedRow> candidates, size_t least, size_t most) {
  if (candidates.size() <= least) return candidates;
  chosen_.clear();
  others_.clear();
  ids_.clear();
  for (const WalkedRow& candidate : candidates) {
    if (chosen_.size() == most) break;
    const uint32_t row = graph.RowOf(level, candidate.row);
    if (IsApart(row, candidate.closeness)) {
      chosen_.push_back(candidate);
      ids_.push_back(row);
    } else {
      others_.push_back(candidate);
    }
  }
  for (size_t i = 0; i < others_.size() && chosen_.size() < least; ++i) chosen_.push_back(others_[i]);
  return chosen_;
}

}  // namespace embedding
