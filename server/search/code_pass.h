// The candidate pass over 8-bit codes of the rows (code_bound.h).
#pragma once

#include <memory>
#include <vector>

#include "server/search/candidate_pass.h"
#include "server/search/code_bound.h"
#include "server/search/row_codes.h"
#include "server/search/row_norms.h"

namespace embedding {

class CodePass final : public CandidatePass {
 public:
  // bounds: one for each query, at least one, all with codes of 8 bits or all with codes of 16 bits.
  CodePass(const RowCodes& codes, const RowNorms& norms, std::vector<CodeBound> bounds);

  std::unique_ptr<Lane> StartLane(size_t block_rows) const override;
  size_t row_bytes() const override { return codes_.mean.size(); }
  std::span<const int64_t> unjudged() const override { return norms_.unjudged; }
  std::span<const int64_t> zero_rows() const override { return codes_.zero_rows; }

 private:
  class LaneOfCodes;

  const RowCodes& codes_;
  const RowNorms& norms_;
  const std::vector<CodeBound> bounds_;
  const size_t stride_;         // elements from one coded query to the next
  std::vector<int16_t> words_;  // [num_queries, stride], or empty
  std::vector<int8_t> bytes_;   // the same, whichever the bounds have
};

}  // namespace embedding
