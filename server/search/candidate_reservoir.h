// Rows that may still be among the k closest, by their bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace embedding {

// A row with bounds of its closeness (higher is closer). Tables have at most 2^31 - 1 rows.
struct Candidate {
  float lower;
  float upper;
  int32_t id;
};

// Keeps each candidate whose upper bound reaches tau, the k-th best lower bound met so far: the k closest rows are
// always among them. Not thread-safe.
class CandidateReservoir {
 public:
  // k >= 1. limit: entries that may pile up above tau before the reservoir gives up; at least 2k are always allowed.
  CandidateReservoir(size_t k, size_t limit);

  // -infinity until k candidates came by. May lag behind the true k-th best: it is brought up to date when full.
  float tau() const { return tau_; }
  // A bound known from elsewhere, for the same k: tau becomes at least this.
  void RaiseTau(float tau);

  // False once the reservoir has given up: it is then empty, and stays so.
  bool Add(const Candidate& candidate);

  // Brings tau up to date and drops what it rules out.
  void Shrink();

  const std::vector<Candidate>& candidates() const { return candidates_; }

  // Adds all candidates of another one, with the same k; neither has given up.
  void Merge(const CandidateReservoir& other);

 private:
  size_t k_;
  size_t limit_;
  size_t capacity_;
  float tau_ = -std::numeric_limits<float>::infinity();
  bool gave_up_ = false;
  std::vector<Candidate> candidates_;
};

}  // namespace embedding
