#include "server/search/float_pass.h"

#include <cmath>
#include <limits>
#include <utility>

#include "server/kernels/candidates.h"

namespace embedding {

class FloatPass::LaneOfFloats final : public Lane {
 public:
  LaneOfFloats(const FloatPass& pass, size_t block_rows)
      : pass_(pass),
        closeness_(pass.bounds_.size() * block_rows),
        cuts_(pass.bounds_.size()),
        cut_tau_(pass.bounds_.size(), std::numeric_limits<float>::quiet_NaN()) {}

  void Score(int64_t begin, int64_t end) override {
    const auto dim = static_cast<size_t>(pass_.table_.dim());
    const QueryBlock queries{pass_.query_data_.data(), dim, pass_.bounds_.size()};
    count_ = static_cast<size_t>(end - begin);
    norms_ = pass_.norms_.norms.data() + begin;
    const RowBlock rows{ElementTypeOf(pass_.table_.dtype()), pass_.table_.row(begin), count_, dim};
    if (pass_.metric_ == Metric::kEuclidean) {
      NegativeSquaredL2ManyToMany(queries, rows, closeness_.data());
    } else {
      DotManyToMany(queries, rows, closeness_.data());
    }
  }

  size_t Select(size_t query, float tau, uint32_t* selected) override {
    if (cut_tau_[query] != tau) {
      cut_tau_[query] = tau;
      cuts_[query] = pass_.bounds_[query].CutFor(tau);
    }
    const CandidateBound::Cut cut = cuts_[query];
    return SelectAtLeast(closeness_.data() + query * count_, norms_, count_, cut.a, cut.b, selected);
  }

  CandidateBound::Range RangeOf(size_t query, uint32_t i, size_t) const override { return RangeOf(query, i); }

  float LowerBoundOf(size_t query, uint32_t i) const override {
    return std::isnan(norms_[i]) ? norms_[i] : RangeOf(query, i).lower;
  }

 private:
  CandidateBound::Range RangeOf(size_t query, uint32_t i) const {
    return pass_.bounds_[query].RangeOf(closeness_[query * count_ + i], norms_[i]);
  }

  const FloatPass& pass_;
  size_t count_ = 0;              // rows scored last
  const float* norms_ = nullptr;  // theirs
  std::vector<float> closeness_;  // [num_queries, count_]
  std::vector<CandidateBound::Cut> cuts_;
  std::vector<float> cut_tau_;  // what each cut was made for
};

FloatPass::FloatPass(const EmbeddingTable& table, const RowNorms& norms, Metric metric,
                     std::vector<CandidateBound> bounds)
    : table_(table), norms_(norms), metric_(metric), bounds_(std::move(bounds)) {
  query_data_.reserve(bounds_.size() * static_cast<size_t>(table.dim()));
  for (const CandidateBound& bound : bounds_) {
    query_data_.insert(query_data_.end(), bound.query().begin(), bound.query().end());
  }
}

std::unique_ptr<CandidatePass::Lane> FloatPass::StartLane(size_t block_rows) const {
  return std::make_unique<LaneOfFloats>(*this, block_rows);
}

}  // namespace embedding
