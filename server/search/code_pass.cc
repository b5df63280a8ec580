#include "server/search/code_pass.h"

#include <algorithm>
#include <cmath>
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
        word_cuts_(pass.byte_bounds_.size()),
        cut_tau_(pass.bounds_.size(), std::numeric_limits<float>::quiet_NaN()),
        word_dots_(pass.byte_bounds_.empty() ? 0 : block_rows) {}

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
    const bool in_bytes = !pass_.bytes_.empty();
    if (cut_tau_[query] != tau) {
      cut_tau_[query] = tau;
      cuts_[query] = (in_bytes ? pass_.byte_bounds_ : pass_.bounds_)[query].CutFor(tau);
      if (in_bytes) word_cuts_[query] = pass_.bounds_[query].CutFor(tau);
    }
    const size_t count = SelectCoded(dots_.data() + query * facts_.count, facts_, cuts_[query], selected);
    return in_bytes ? JudgeByWords(query, selected, count) : count;
  }

  CandidateBound::Range RangeOf(size_t query, uint32_t i, size_t at) const override {
    const int32_t dot = pass_.bytes_.empty() ? dots_[query * facts_.count + i] : word_dots_[at];
    return pass_.bounds_[query].RangeOf(dot, facts_.alphas[i], facts_.errors[i], facts_.norms[i]);
  }

  float LowerBoundOf(size_t query, uint32_t i) const override {
    if (std::isnan(facts_.errors[i]) || std::isnan(facts_.norms[i])) return std::numeric_limits<float>::quiet_NaN();
    const CodeBound& bound = (pass_.bytes_.empty() ? pass_.bounds_ : pass_.byte_bounds_)[query];
    return bound.RangeOf(dots_[query * facts_.count + i], facts_.alphas[i], facts_.errors[i], facts_.norms[i]).lower;
  }

 private:
  // Of `count` selected rows, keeps those that meet the query's cut for words, in order, and their dot products.
  // Returns how many.
  size_t JudgeByWords(size_t query, uint32_t* selected, size_t count) {
    CodeDotToRecords(pass_.words_.data() + query * pass_.stride_, {rows_.data, rows_.dim, rows_.dim}, selected, count,
                     word_dots_.data());
    const CodeCut& cut = word_cuts_[query];
    size_t kept = 0;
    for (size_t at = 0; at < count; ++at) {
      const uint32_t i = selected[at];
      if (!MeetsCut(cut, word_dots_[at], facts_.alphas[i], facts_.errors[i], facts_.norms[i])) continue;
      selected[kept] = i;
      word_dots_[kept++] = word_dots_[at];
    }
    return kept;
  }

  const CodePass& pass_;
  CodedFacts facts_;           // of the rows scored last
  CodeBlock rows_;             // their codes
  std::vector<int32_t> dots_;  // [num_queries, rows scored last]
  std::vector<CodeCut> cuts_;
  std::vector<CodeCut> word_cuts_;  // where cuts_ are for bytes
  std::vector<float> cut_tau_;      // what each cut was made for
  std::vector<int32_t> word_dots_;  // of the rows selected last, where dots_ are of bytes
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
