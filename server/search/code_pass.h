// The candidate pass over 8-bit codes of the rows (code_bound.h).
//
// Queries of 8 bits are multiplied fastest but leave some five times the survivors that queries of 16 bits do, each of
// which costs a row's float32 bytes from memory. So a row that the first kind selects is judged again by the second,
// whose cut and bounds are what survives: its codes are still in the cache, and few rows are selected.
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
  // bounds: one for each query, at least one, with codes of 16 bits. byte_bounds: the same with codes of 8 bits, to
  // select by; or empty.
  CodePass(const RowCodes& codes, const RowNorms& norms, std::vector<CodeBound> bounds,
           std::vector<CodeBound> byte_bounds);

  std::unique_ptr<Lane> StartLane(size_t block_rows) const override;
  size_t row_bytes() const override { return codes_.mean.size(); }
  int64_t speed() const override { return bytes_.empty() ? 2 : 8; }
  std::span<const int64_t> unjudged() const override { return norms_.unjudged; }
  std::span<const int64_t> zero_rows() const override { return codes_.zero_rows; }

 private:
  class LaneOfCodes;

  const RowCodes& codes_;
  const RowNorms& norms_;
  const std::vector<CodeBound> bounds_;
  const std::vector<CodeBound> byte_bounds_;
  const size_t stride_;         // elements from one coded query to the next
  std::vector<int16_t> words_;  // [num_queries, stride]
  std::vector<int8_t> bytes_;   // the same, or empty
};

}  // namespace embedding
