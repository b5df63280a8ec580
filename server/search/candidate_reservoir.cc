#include "server/search/candidate_reservoir.h"

#include <algorithm>

namespace embedding {

CandidateReservoir::CandidateReservoir(size_t k, size_t limit)
    : k_(k), limit_(std::max(limit, 2 * k + 64)), capacity_(2 * k + 64) {}

void CandidateReservoir::RaiseTau(float tau) { tau_ = std::max(tau_, tau); }

bool CandidateReservoir::Add(const Candidate& candidate) {
  if (gave_up_) return false;
  if (candidate.upper < tau_) return true;
  candidates_.push_back(candidate);
  if (candidates_.size() < capacity_) return true;
  Shrink();
  if (candidates_.size() >= limit_) {
    gave_up_ = true;
    candidates_ = std::vector<Candidate>();  // `= {}` would keep the memory
    return false;
  }
  // Many rows about as close as each other: a larger reservoir keeps the cost of shrinking per entry constant.
  capacity_ = std::max(capacity_, std::min(2 * candidates_.size(), limit_));
  return true;
}

void CandidateReservoir::Shrink() {
  if (candidates_.size() < k_) return;
  const auto kth = candidates_.begin() + static_cast<ptrdiff_t>(k_ - 1);
  std::nth_element(candidates_.begin(), kth, candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.lower > b.lower; });
  RaiseTau(kth->lower);
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(),
                                   [tau = tau_](const Candidate& candidate) { return candidate.upper < tau; }),
                    candidates_.end());
}

void CandidateReservoir::Merge(const CandidateReservoir& other) {
  RaiseTau(other.tau_);
  // Not through Add: each part kept its own limit.
  candidates_.insert(candidates_.end(), other.candidates_.begin(), other.candidates_.end());
}

}  // namespace embedding
