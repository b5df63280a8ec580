// Interface: how a candidate pass reads rows and what bounds it gives, for a group of queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "server/search/candidate_bound.h"

namespace embedding {

// Immutable, so it may be shared between threads; borrows the table and what is known of its rows.
class CandidatePass {
 public:
  // The work of one thread on one block of rows after the other. Not thread-safe.
  class Lane {
   public:
    virtual ~Lane() = default;

    // Scores rows [begin, end), at most block_rows of them, against every query.
    virtual void Score(int64_t begin, int64_t end) = 0;

    // Of the rows scored last: writes to `selected`, ascending, i for each row begin + i whose closeness to the query
    // may reach tau, and returns how many. selected: [block_rows]. A row that the pass does not judge is never
    // selected.
    virtual size_t Select(size_t query, float tau, uint32_t* selected) = 0;

    // Bounds of the closeness of row begin + i, the at-th of those that were selected last, for this query.
    virtual CandidateBound::Range RangeOf(size_t query, uint32_t i, size_t at) const = 0;

    // At most the closeness of row begin + i, from its score as it is, where RangeOf may look closer. NaN for a row
    // that the pass does not judge.
    virtual float LowerBoundOf(size_t query, uint32_t i) const = 0;
  };

  virtual ~CandidatePass() = default;

  virtual std::unique_ptr<Lane> StartLane(size_t block_rows) const = 0;
  // Bytes that one row costs to read.
  virtual size_t row_bytes() const = 0;
  // Multiply-adds that it does while one of float32 is done.
  virtual int64_t speed() const { return 1; }
  // Rows that the pass does not judge and that must be scored canonically, ascending.
  virtual std::span<const int64_t> unjudged() const = 0;
  // Rows of zeros that the pass does not judge, ascending. They all have one score, so of those that a query may find
  // the first k are enough.
  virtual std::span<const int64_t> zero_rows() const { return {}; }
};

// Those of ascending rows that lie in [begin, end).
inline std::span<const int64_t> Within(std::span<const int64_t> rows, int64_t begin, int64_t end) {
  const auto first = std::lower_bound(rows.begin(), rows.end(), begin);
  return {first, std::lower_bound(first, rows.end(), end)};
}

}  // namespace embedding
