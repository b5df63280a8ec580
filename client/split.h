// Cuts a batch into parts that pass no limit of the server. Arithmetic only: no wire, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/types.h"

namespace embedding::client {

// Elements [begin, end) of a batch.
struct Range {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Number of vectors that a source names or holds.
size_t CountOf(const Rows& rows);
size_t CountOf(const VectorSource& source);

// Consecutive ranges that cover [0, count), each as long as max_items and max_bytes (the sum of bytes_of over it)
// allow. An element that is over max_bytes by itself gets a range of its own: the server then refuses it by name. One
// empty range for count = 0.
std::vector<Range> SplitGreedily(size_t count, int64_t max_items, int64_t max_bytes,
                                 absl::FunctionRef<int64_t(size_t)> bytes_of);

// For Lookup of rows of row_bytes bytes each.
std::vector<Range> SplitLookup(const Rows& rows, int64_t row_bytes, const ServerLimits& limits);

// For a pooled Lookup: ranges of bags. begins: bag b holds rows [begins[b], begins[b + 1]). vector_bytes: of the answer
// for each bag; position_bytes: of the answer for each row. A bag over a limit by itself gets a range of its own.
std::vector<Range> SplitBags(const Rows& rows, const std::vector<int64_t>& begins, int64_t vector_bytes,
                             int64_t position_bytes, const ServerLimits& limits);

size_t CountOf(const ExampleQuery& query);

// For NearestNeighbour with answer_bytes bytes for each query. shared_bytes: of the request, beside its queries.
std::vector<Range> SplitQueries(const VectorSource& targets, int64_t answer_bytes, int64_t shared_bytes,
                                const ServerLimits& limits);
std::vector<Range> SplitExamples(const std::vector<ExampleQuery>& examples, int64_t answer_bytes, int64_t shared_bytes,
                                 const ServerLimits& limits);
// Bytes that a filter takes in a request.
int64_t RequestBytesOf(const Filter& filter);

// For Similarity: the ranges of left and right of each part. Pairwise needs CountOf(left) == CountOf(right) and gives
// the same range twice. All pairs gives tiles that cover left x right, right's ranges running fastest.
std::vector<std::pair<Range, Range>> SplitPairwise(const VectorSource& left, const VectorSource& right,
                                                   const ServerLimits& limits);
std::vector<std::pair<Range, Range>> SplitAllPairs(const VectorSource& left, const VectorSource& right,
                                                   const ServerLimits& limits);

// For ResolveKeys: as many keys or ids as max_ids and the bytes of a request allow. A prefix is one empty range.
std::vector<Range> SplitResolve(const std::variant<Ids, Keys, KeyPrefix>& query, const ServerLimits& limits);

}  // namespace embedding::client
