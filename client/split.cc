#include "client/split.h"

#include <algorithm>
#include <limits>

namespace embedding::client {
namespace {

// Room for what a message holds beside its elements: table name, version, fingerprint, enums, shapes, tags and lengths.
constexpr int64_t kEnvelopeBytes = 256;
constexpr int64_t kScoreBytes = 4;
// A key in a list: its tag and a length of up to three bytes.
constexpr int64_t kKeyOverheadBytes = 4;

int64_t Room(int64_t limit) { return std::max<int64_t>(limit - kEnvelopeBytes, 1); }

int64_t VarintBytes(int64_t value) {
  int64_t bytes = 1;
  for (auto rest = static_cast<uint64_t>(value) >> 7; rest != 0; rest >>= 7) ++bytes;
  return bytes;
}

struct ElementBytes {
  size_t index;
  int64_t operator()(const Ids& ids) const { return VarintBytes(ids.values[index]); }
  int64_t operator()(const Keys& keys) const {
    return static_cast<int64_t>(keys.values[index].size()) + kKeyOverheadBytes;
  }
  int64_t operator()(const Vectors& vectors) const { return vectors.dim * static_cast<int64_t>(sizeof(float)); }
  int64_t operator()(const KeyPrefix&) const { return 0; }
};

template <typename Source>
int64_t RequestBytesOf(const Source& source, size_t index) {
  return std::visit(ElementBytes{index}, source);
}

int64_t TotalRequestBytes(const VectorSource& source) {
  int64_t total = 0;
  for (size_t i = 0; i < CountOf(source); ++i) total += RequestBytesOf(source, i);
  return total;
}

int64_t RequestBytesOf(const ExampleQuery& query) {
  // Tags and lengths of a set: its message, its selector or tensor with its shape, its list.
  constexpr int64_t kSetBytes = 48;
  int64_t bytes = static_cast<int64_t>(query.positive_weights.size() + query.negative_weights.size()) * 4 + kSetBytes;
  for (const auto* sets : {&query.positive, &query.negative}) {
    for (const VectorSource& set : *sets) bytes += TotalRequestBytes(set) + kSetBytes;
  }
  return bytes;
}

// Vectors of the caller's own are no ids: only the pairs and the bytes bound them.
int64_t MaxIdsFor(const VectorSource& source, const ServerLimits& limits) {
  return std::holds_alternative<Vectors>(source) ? std::numeric_limits<int64_t>::max() : limits.max_ids;
}

int64_t Longest(const std::vector<Range>& ranges) {
  size_t longest = 1;
  for (const Range& range : ranges) longest = std::max(longest, range.size());
  return static_cast<int64_t>(longest);
}

struct Count {
  size_t operator()(const Ids& ids) const { return ids.values.size(); }
  size_t operator()(const Keys& keys) const { return keys.values.size(); }
  size_t operator()(const Vectors& vectors) const {
    return vectors.dim > 0 ? vectors.values.size() / static_cast<size_t>(vectors.dim) : 0;
  }
  size_t operator()(const KeyPrefix&) const { return 0; }
};

}  // namespace

size_t CountOf(const Rows& rows) { return std::visit(Count{}, rows); }
size_t CountOf(const VectorSource& source) { return std::visit(Count{}, source); }

size_t CountOf(const ExampleQuery& query) {
  size_t count = 0;
  for (const auto* sets : {&query.positive, &query.negative}) {
    for (const VectorSource& set : *sets) count += CountOf(set);
  }
  return count;
}

std::vector<Range> SplitGreedily(size_t count, int64_t max_items, int64_t max_bytes,
                                 absl::FunctionRef<int64_t(size_t)> bytes_of) {
  std::vector<Range> ranges;
  Range range;
  int64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t more = bytes_of(i);
    const bool full = static_cast<int64_t>(range.size()) >= max_items || more > max_bytes - bytes;
    if (full && range.size() > 0) {
      ranges.push_back(range);
      range.begin = i;
      bytes = 0;
    }
    range.end = i + 1;
    bytes += more;
  }
  ranges.push_back(range);
  return ranges;
}

std::vector<Range> SplitLookup(const Rows& rows, int64_t row_bytes, const ServerLimits& limits) {
  const int64_t max_rows = std::min(limits.max_ids, Room(limits.max_response_bytes) / std::max<int64_t>(row_bytes, 1));
  return SplitGreedily(CountOf(rows), max_rows, Room(limits.max_request_bytes),
                       [&](size_t i) { return RequestBytesOf(rows, i); });
}

std::vector<Range> SplitBags(const Rows& rows, const std::vector<int64_t>& begins, int64_t vector_bytes,
                             int64_t position_bytes, const ServerLimits& limits) {
  // An offset and a weight beside each row, at most.
  constexpr int64_t kOffsetBytes = 5, kWeightBytes = 4;
  std::vector<Range> ranges;
  Range range;
  int64_t ids = 0, request_bytes = 0, answer_bytes = 0;
  for (size_t bag = 0; bag + 1 < begins.size(); ++bag) {
    const int64_t bag_ids = begins[bag + 1] - begins[bag];
    int64_t bag_request = kOffsetBytes + bag_ids * kWeightBytes;
    for (int64_t i = begins[bag]; i < begins[bag + 1]; ++i) bag_request += RequestBytesOf(rows, static_cast<size_t>(i));
    const int64_t bag_answer = vector_bytes + bag_ids * position_bytes;
    const bool full = bag_ids > limits.max_ids - ids || static_cast<int64_t>(range.size()) >= limits.max_ids ||
                      bag_request > Room(limits.max_request_bytes) - request_bytes ||
                      bag_answer > Room(limits.max_response_bytes) - answer_bytes;
    if (full && range.size() > 0) {
      ranges.push_back(range);
      range.begin = bag;
      ids = request_bytes = answer_bytes = 0;
    }
    range.end = bag + 1;
    ids += bag_ids;
    request_bytes += bag_request;
    answer_bytes += bag_answer;
  }
  ranges.push_back(range);
  return ranges;
}

std::vector<Range> SplitQueries(const VectorSource& targets, int64_t answer_bytes, int64_t shared_bytes,
                                const ServerLimits& limits) {
  const int64_t max_queries = std::min({limits.max_queries, MaxIdsFor(targets, limits),
                                        Room(limits.max_response_bytes) / std::max<int64_t>(answer_bytes, 1)});
  return SplitGreedily(CountOf(targets), max_queries, Room(limits.max_request_bytes - shared_bytes),
                       [&](size_t i) { return RequestBytesOf(targets, i); });
}

std::vector<Range> SplitExamples(const std::vector<ExampleQuery>& examples, int64_t answer_bytes, int64_t shared_bytes,
                                 const ServerLimits& limits) {
  const int64_t max_queries =
      std::min(limits.max_queries, Room(limits.max_response_bytes) / std::max<int64_t>(answer_bytes, 1));
  // Two sums are bounded, bytes and examples: ranges by the first are cut by the second.
  std::vector<Range> ranges;
  for (const Range& range : SplitGreedily(examples.size(), max_queries, Room(limits.max_request_bytes - shared_bytes),
                                          [&](size_t i) { return RequestBytesOf(examples[i]); })) {
    for (const Range& part : SplitGreedily(range.size(), max_queries, limits.max_ids, [&](size_t i) {
           return static_cast<int64_t>(CountOf(examples[range.begin + i]));
         })) {
      ranges.push_back({range.begin + part.begin, range.begin + part.end});
    }
  }
  return ranges;
}

int64_t RequestBytesOf(const Filter& filter) {
  int64_t bytes = 0;
  if (filter.allow) {
    for (const int64_t id : *filter.allow) bytes += VarintBytes(id);
  }
  for (const int64_t id : filter.deny) bytes += VarintBytes(id);
  return bytes;
}

std::vector<std::pair<Range, Range>> SplitPairwise(const VectorSource& left, const VectorSource& right,
                                                   const ServerLimits& limits) {
  const int64_t max_pairs = std::min({limits.max_pairs, MaxIdsFor(left, limits), MaxIdsFor(right, limits),
                                      Room(limits.max_response_bytes) / kScoreBytes});
  std::vector<std::pair<Range, Range>> parts;
  for (const Range& range : SplitGreedily(CountOf(left), max_pairs, Room(limits.max_request_bytes), [&](size_t i) {
         return RequestBytesOf(left, i) + RequestBytesOf(right, i);
       })) {
    parts.emplace_back(range, range);
  }
  return parts;
}

std::vector<std::pair<Range, Range>> SplitAllPairs(const VectorSource& left, const VectorSource& right,
                                                   const ServerLimits& limits) {
  const int64_t max_pairs = std::min(limits.max_pairs, Room(limits.max_response_bytes) / kScoreBytes);
  const int64_t max_bytes = Room(limits.max_request_bytes);
  // Right takes what left leaves of the request, and half of it at least.
  const int64_t right_bytes = std::max(max_bytes / 2, max_bytes - TotalRequestBytes(left));
  const std::vector<Range> right_ranges =
      SplitGreedily(CountOf(right), std::min(max_pairs, MaxIdsFor(right, limits)), right_bytes,
                    [&](size_t i) { return RequestBytesOf(right, i); });
  int64_t widest_right = 0;
  for (const Range& range : right_ranges) {
    int64_t bytes = 0;
    for (size_t i = range.begin; i < range.end; ++i) bytes += RequestBytesOf(right, i);
    widest_right = std::max(widest_right, bytes);
  }
  const std::vector<Range> left_ranges =
      SplitGreedily(CountOf(left), std::min(max_pairs / Longest(right_ranges), MaxIdsFor(left, limits)),
                    std::max<int64_t>(max_bytes - widest_right, 1), [&](size_t i) { return RequestBytesOf(left, i); });
  std::vector<std::pair<Range, Range>> parts;
  for (const Range& left_range : left_ranges) {
    for (const Range& right_range : right_ranges) parts.emplace_back(left_range, right_range);
  }
  return parts;
}

std::vector<Range> SplitResolve(const std::variant<Ids, Keys, KeyPrefix>& query, const ServerLimits& limits) {
  return SplitGreedily(std::visit(Count{}, query), limits.max_ids, Room(limits.max_request_bytes),
                       [&](size_t i) { return RequestBytesOf(query, i); });
}

}  // namespace embedding::client
