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

void LinkChooser::DropThoseBehind(uint32_t row) {
  if (ids_.empty()) return;
  closeness_.resize(ids_.size());
  query_.SetRow(row);
  rows_.Judge(query_, ids_.data(), ids_.size(), closeness_.data());
  size_t left = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    ids_[left] = ids_[i];
    bounds_[left] = bounds_[i];
    places_[left] = places_[i];
    left += closeness_[i] > bounds_[i] ? 0 : 1;
  }
  ids_.resize(left);
  bounds_.resize(left);
  places_.resize(left);
}

void LinkChooser::FillUp(std::span<const WalkedRow> candidates, size_t least) {
  places_.clear();
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (is_taken_[i] == 0) places_.push_back(static_cast<uint32_t>(i));
  }
  const size_t wanted = std::min(least - chosen_.size(), places_.size());
  const size_t closest = wanted / 2;
  for (size_t i = 0; i < closest; ++i) chosen_.push_back(candidates[places_[i]]);
  for (size_t i = 0; i < wanted - closest; ++i) {
    chosen_.push_back(candidates[places_[closest + i * (places_.size() - closest) / (wanted - closest)]]);
  }
}

std::span<const WalkedRow> LinkChooser::Choose(const HnswGraph& graph, size_t level,
                                               std::span<const WalkedRow> candidates, size_t least, size_t most) {
  if (candidates.size() <= least) return candidates;
  chosen_.clear();
  is_taken_.assign(candidates.size(), 0);
  ids_.clear();
  bounds_.clear();
  places_.clear();
  // Farthest first, so that the next one is at the end.
  for (size_t i = candidates.size(); i-- > 0;) {
    ids_.push_back(graph.RowOf(level, candidates[i].row));
    bounds_.push_back(candidates[i].closeness);
    places_.push_back(static_cast<uint32_t>(i));
  }
  while (!ids_.empty()) {
    const uint32_t row = ids_.back();
    is_taken_[places_.back()] = 1;
    chosen_.push_back(candidates[places_.back()]);
    if (chosen_.size() == most) break;
    ids_.pop_back();
    bounds_.pop_back();
    places_.pop_back();
    DropThoseBehind(row);
  }
  if (chosen_.size() < least) FillUp(candidates, least);
  return chosen_;
}

}  // namespace embedding
