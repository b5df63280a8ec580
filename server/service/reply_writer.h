// Plain results -> wire bytes: the exact size first, then one pass into memory of that size.
//
// The bytes are those that protobuf would write for the same message (fields in order of their numbers, default values
// left out); no message is built, so rows and scores are copied once.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/neighbour.h"
#include "server/service/answer_buffer.h"
#include "server/service/snapshot.h"

namespace embedding {

// For sizes that a request asks for before any limit holds them: what does not fit is the largest number, which is over
// every limit. (One result alone stays far below: 2^31 neighbours of 2^16 elements.)
constexpr uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}
constexpr uint64_t SaturatingMultiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

v1::Dtype WireDtype(Dtype dtype);

// A Tensor of an answer. Its payload is the same bytes whether it travels as `data` or, as_values, as packed `values`.
struct TensorLayout {
  v1::Dtype dtype = v1::DTYPE_F32;
  std::vector<int64_t> shape;
  uint64_t payload_bytes = 0;
  bool as_values = false;
};

// {table, tensor} begins LookupResponse {table, embeddings, missing_positions}. Bytes of the missing_positions behind
// it, none for an empty list; and the list itself, returning the byte behind it.
uint64_t MissingPositionsSize(const std::vector<int64_t>& positions);
uint8_t* WriteMissingPositions(const std::vector<int64_t>& positions, uint8_t* to);

// {table, tensor} is LookupResponse {table, embeddings} and the beginning of SimilarityResponse {table, scores}.
// Bytes of the whole message up to the tensor's end.
uint64_t StampedTensorSize(const Snapshot& snapshot, const TensorLayout& tensor);
// Writes all but the payload, whose place is returned; payload_bytes may be 0.
uint8_t* WriteStampedTensor(const Snapshot& snapshot, const TensorLayout& tensor, uint8_t* to);

// What follows the scores of a SimilarityResponse.
struct SimilarityTail {
  Metric metric = Metric::kCosine;
  std::span<const int64_t> missing_left;  // positions
  std::span<const int64_t> missing_right;
};
// SimilarityResponse. The payload's offset in the message is size less tail less payload.
uint64_t SimilarityAnswerSize(const Snapshot& snapshot, const TensorLayout& scores, const SimilarityTail& tail);
// Writes all but the scores, for which there is room at the pointer returned.
uint8_t* WriteSimilarityAnswer(const Snapshot& snapshot, const TensorLayout& scores, const SimilarityTail& tail,
                               uint8_t* to);
uint64_t SimilarityTailSize(const SimilarityTail& tail);

// Bytes that a field with the positions of missing rows among n can need.
uint64_t MissingPositionsBound(int64_t n);

// What a NearestNeighbour answer carries beside ids and scores.
struct NeighbourFields {
  bool keys = false;
  bool vectors = false;
  bool vectors_as_values = false;  // F32 in `values`
};

// Bytes that an answer of num_queries results of `found` neighbours each can need, keys left out: ids count as long as
// the table's longest. found <= 2^31; the sum saturates.
uint64_t NeighbourAnswerBound(const Snapshot& snapshot, Metric metric, NeighbourFields fields, uint64_t num_queries,
                              uint64_t found);

// NearestNeighbourResponse of given results.
class NeighbourAnswer {
 public:
  // Borrows all. fields.keys needs a table with keys. missing: positions of the queries that name a missing row.
  NeighbourAnswer(const Snapshot& snapshot, Metric metric, bool exact, NeighbourFields fields,
                  const std::vector<std::vector<Neighbour>>& results, const std::vector<int64_t>& missing);

  // Exact bytes.
  uint64_t size() const { return size_; }
  // to: [size()].
  void Write(uint8_t* to) const;

 private:
  struct Sizes {
    uint64_t ids = 0;     // payload of the packed ids
    uint64_t result = 0;  // the Neighbours message
  };

  Sizes Measure(const std::vector<Neighbour>& found) const;
  uint8_t* WriteResult(const std::vector<Neighbour>& found, const Sizes& sizes, uint8_t* to) const;

  const Snapshot& snapshot_;
  const Metric metric_;
  const bool exact_;
  const NeighbourFields fields_;
  const std::vector<std::vector<Neighbour>>& results_;
  const std::vector<int64_t>& missing_;
  std::vector<Sizes> sizes_;
  uint64_t size_ = 0;
};

}  // namespace embedding
