#include "server/search/code_pass.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/kernels/codes.h"

namespace embedding {

class CodePass::LaneOfCodes final : public Lane {
 public:
  LaneOfCodes(const CodePass& pass, size_t block_rows)
      : pass_(pass),
        dots_(pass.bounds_.size() * block_rows),
        cuts_(pass.bounds_.size()),
        cut_tau_(pass.bounds_.size(), std::numeric_limits<float>::quiet_NaN()) {}

  void Score(int64_t begin, int64_t end) override {
    const size_t dim = pass_.row_bytes();
    const auto first = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    facts_ = {pass_.codes_.alphas.data() + first, pass_.codes_.errors.data() + first, pass_.norms_.norms.data() + first,
              count};
    rows_ = {reinterpret_cast<const uint8_t*>(pass_.codes_.bytes.get()) + first * dim, count, dim};
    if (pass_.bytes_.empty()) {
      CodeDotManyToMany(CodedQueries<int16_t>{pass_.words_.data(), pass_.stride_, pass_.bounds_.size()}, rows_,
                        dots_.data());
    } else {
      CodeDotManyToMany(CodedQueries<int8_t>{pass_.bytes_.data(), pass_.stride_, pass_.bounds_.size()}, rows_,
                        dots_.data());
    }
  }

  size_t Select(size_t query, float tau, uint32_t* selected) override {
    if (cut_tau_[query] != tau) {
      cut_tau_[query] = tau;
      cuts_[query] = (pass_.bytes_.empty() ? pass_.bounds_ : pass_.byte_bounds_)[query].CutFor(tau);
    }
    return SelectCoded(dots_.data() + query * facts_.count, facts_, cuts_[query], selected);
  }

  CandidateBound::Range RangeOf(size_t query, uint32_t i) const override {
    int32_t dot = dots_[query * facts_.count + i];
    if (!pass_.bytes_.empty()) {
      const CodedQueries<int16_t> one{pass_.words_.data() + query * pass_.stride_, pass_.stride_, 1};
      CodeDotManyToMany(one, {rows_.data + size_t{i} * rows_.dim, 1, rows_.dim}, &dot);
    }
    return pass_.bounds_[query].RangeOf(dot, facts_.alphas[i], facts_.errors[i], facts_.norms[i]);
  }

 private:
  const CodePass& pass_;
  CodedFacts facts_;           // of the rows scored last
  CodeBlock rows_;             // their codes
  std::vector<int32_t> dots_;  // [num_queries, rows scored last]
  std::vector<CodeCut> cuts_;
  std::vector<float> cut_tau_;  // what each cut was made for
};

CodePass::CodePass(const RowCodes& codes, const RowNorms& norms, std::vector<CodeBound> bounds,
                   std::vector<CodeBound> byte_bounds)
    : codes_(codes),
      norms_(norms),
      bounds_(std::move(bounds)),
      byte_bounds_(std::move(byte_bounds)),
      stride_(codes.mean.size() + kCodeSlack),
      words_(bounds_.size() * stride_),
      bytes_(byte_bounds_.size() * stride_) {
  for (size_t q = 0; q < bounds_.size(); ++q) {
    const auto at = static_cast<ptrdiff_t>(q * stride_);
    std::copy(bounds_[q].words().begin(), bounds_[q].words().end(), words_.begin() + at);
    if (bytes_.empty()) continue;
    std::copy(byte_bounds_[q].bytes().begin(), byte_bounds_[q].bytes().end(), bytes_.begin() + at);
  }
}

std::unique_ptr<CandidatePass::Lane> CodePass::StartLane(size_t block_rows) const {
  return std::make_unique<LaneOfCodes>(*this, block_rows);
}

}  // namespace embedding
