// Which rows a row of a graph links to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/search/hnsw_graph.h"
#include "server/search/hnsw_rows.h"
#include "server/search/hnsw_walk.h"

namespace embedding {

// Working memory for one choice at a time.
class LinkChooser {
 public:
  // Borrowed.
  explicit LinkChooser(const HnswRows& rows) : rows_(rows), query_(rows) {}

  // For the caller to fill with numbers of rows, each once, and to hand to Choose.
  std::vector<WalkedRow>& candidates() { return candidates_; }
  // Gives candidates() their closeness to a row, and sorts them. All are numbers of the level.
  void JudgeCandidates(const HnswGraph& graph, size_t level, uint32_t row);

  // At most `most` of the candidates, which are closest first: each is closer to the row whose list it is than to all
  // that were chosen before it, so that links lead in all directions (Malkov and Yashunin, algorithm 4). All of them
  // where there are no more. Valid until the next call.
  std::span<const WalkedRow> Choose(const HnswGraph& graph, size_t level, std::span<const WalkedRow> candidates,
                                    size_t most);

 private:
  const HnswRows& rows_;
  HnswQuery query_;
  std::vector<WalkedRow> candidates_;
  std::vector<WalkedRow> chosen_;
  std::vector<HnswQuery> chosen_queries_;  // at least as many as chosen_
  std::vector<uint32_t> ids_;
  std::vector<float> closeness_;
};

}  // namespace embedding
