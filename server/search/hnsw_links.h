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
  // that were chosen before it, so that links lead in all directions (Malkov and Yashunin, algorithm 4); then, if these
  // are fewer than `least`, the closest of the others (their keepPrunedConnections). All of them where there are no
  // more. Valid until the next call.
  std::span<const WalkedRow> Choose(const HnswGraph& graph, size_t level, std::span<const WalkedRow> candidates,
                                    size_t least, size_t most);

 private:
  // Whether none of the chosen rows is closer to a row than `closeness`.
  bool IsApart(uint32_t row, float closeness);

  const HnswRows& rows_;
  HnswQuery query_;
  std::vector<WalkedRow> candidates_;
  std::vector<WalkedRow> chosen_;
  std::vector<WalkedRow> others_;  // that were passed over
  std::vector<uint32_t> ids_;      // of candidates_, or of chosen_
  std::vector<float> closeness_;
};

}  // namespace embedding
