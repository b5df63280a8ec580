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
  // are fewer than `least`, some of the others (their keepPrunedConnections), see FillUp. All of them where there are
  // no more. Valid until the next call.
  std::span<const WalkedRow> Choose(const HnswGraph& graph, size_t level, std::span<const WalkedRow> candidates,
                                    size_t least, size_t most);

 private:
  // Adds others up to `least`: half of them the closest, half spread evenly over the rest. Where rows lie in tight
  // groups, the closest alone would all lead into the same one: among 20,000 rows in 200 groups, by dot product, 0.85
  // of the neighbours were found at effort 400, where now all are and hnswlib finds 0.99.
  void FillUp(std::span<const WalkedRow> candidates, size_t least);
  // Drops the candidates that are still open, and are closer to `row` than to the row whose list it is.
  void DropThoseBehind(uint32_t row);

  const HnswRows& rows_;
  HnswQuery query_;
  std::vector<WalkedRow> candidates_;
  std::vector<WalkedRow> chosen_;
  std::vector<uint32_t> ids_;      // of candidates that are judged
  std::vector<float> closeness_;   // of these
  std::vector<float> bounds_;      // of these: their closeness to the row whose list it is
  std::vector<uint32_t> places_;   // of these: which candidates they are
  std::vector<uint8_t> is_taken_;  // per candidate: chosen
};

}  // namespace embedding
