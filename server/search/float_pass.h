// The candidate pass over the rows themselves, in float32 (candidate_bound.h).
#pragma once

#include <memory>
#include <vector>

#include "server/search/candidate_pass.h"
#include "server/search/metric.h"
#include "server/search/row_norms.h"
#include "server/table/embedding_table.h"

namespace embedding {

class FloatPass final : public CandidatePass {
 public:
  // bounds: one for each query, all of the metric; at least one.
  FloatPass(const EmbeddingTable& table, const RowNorms& norms, Metric metric, std::vector<CandidateBound> bounds);

  std::unique_ptr<Lane> StartLane(size_t block_rows) const override;
  size_t row_bytes() const override { return table_.row_bytes(); }
  std::span<const int64_t> unjudged() const override { return norms_.unjudged; }

 private:
  class LaneOfFloats;

  const EmbeddingTable& table_;
  const RowNorms& norms_;
  const Metric metric_;
  const std::vector<CandidateBound> bounds_;
  std::vector<float> query_data_;  // [num_queries, dim]
};

}  // namespace embedding
