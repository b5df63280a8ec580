#include "server/service/reply_writer.h"

#include <cassert>

#include "proto/vector_codec.h"
#include "server/service/metric_field.h"
#include "server/service/wire_writer.h"
#include "server/table/gather.h"

namespace embedding {
namespace {

using Stamp = v1::TableStamp;
using TensorFields = v1::Tensor;
using Scores = v1::SimilarityResponse;
using Result = v1::Neighbours;
using Answer = v1::NearestNeighbourResponse;

static_assert(static_cast<int>(v1::LookupResponse::kTableFieldNumber) == v1::SimilarityResponse::kTableFieldNumber &&
              static_cast<int>(v1::LookupResponse::kEmbeddingsFieldNumber) ==
                  v1::SimilarityResponse::kScoresFieldNumber);

uint64_t StampSize(const Snapshot& snapshot) {
  return OptionalBytesFieldSize(snapshot.name.size()) + VarintFieldSize(snapshot.version) +
         OptionalBytesFieldSize(snapshot.table->fingerprint().size());
}

uint8_t* PutStampField(uint32_t number, const Snapshot& snapshot, uint8_t* to) {
  to = PutBytesHeader(number, StampSize(snapshot), to);
  to = PutOptionalBytesField(Stamp::kNameFieldNumber, snapshot.name, to);
  to = PutVarintField(Stamp::kVersionFieldNumber, snapshot.version, to);
  return PutOptionalBytesField(Stamp::kFingerprintFieldNumber, snapshot.table->fingerprint(), to);
}

uint64_t PackedSize(std::span<const int64_t> values) {
  uint64_t size = 0;
  for (const int64_t value : values) size += VarintSize(static_cast<uint64_t>(value));
  return size;
}

uint64_t PackedFieldSize(std::span<const int64_t> values) { return OptionalBytesFieldSize(PackedSize(values)); }

// Left out if it is empty.
uint8_t* PutPackedField(uint32_t number, std::span<const int64_t> values, uint8_t* to) {
  if (values.empty()) return to;
  to = PutBytesHeader(number, PackedSize(values), to);
  for (const int64_t value : values) to = PutVarint(static_cast<uint64_t>(value), to);
  return to;
}

uint64_t TensorSize(const TensorLayout& tensor) {
  return VarintFieldSize(static_cast<uint64_t>(tensor.dtype)) + PackedFieldSize(tensor.shape) +
         OptionalBytesFieldSize(tensor.payload_bytes);
}

// Up to the payload.
uint8_t* PutTensorField(uint32_t number, const TensorLayout& tensor, uint8_t* to) {
  to = PutBytesHeader(number, TensorSize(tensor), to);
  to = PutVarintField(TensorFields::kDtypeFieldNumber, static_cast<uint64_t>(tensor.dtype), to);
  to = PutPackedField(TensorFields::kShapeFieldNumber, tensor.shape, to);
  if (tensor.payload_bytes == 0) return to;
  return PutBytesHeader(tensor.as_values ? TensorFields::kValuesFieldNumber : TensorFields::kDataFieldNumber,
                        tensor.payload_bytes, to);
}

static_assert(static_cast<int>(Scores::kMetricFieldNumber) == Answer::kMetricFieldNumber &&
              static_cast<int>(Scores::kHigherIsCloserFieldNumber) == Answer::kHigherIsCloserFieldNumber);
uint64_t MetricTailSize(Metric metric) {
  return VarintFieldSize(static_cast<uint64_t>(WireMetric(metric))) + VarintFieldSize(HigherIsCloser(metric) ? 1 : 0);
}
uint8_t* PutMetricTail(Metric metric, uint8_t* to) {
  to = PutVarintField(Scores::kMetricFieldNumber, static_cast<uint64_t>(WireMetric(metric)), to);
  return PutVarintField(Scores::kHigherIsCloserFieldNumber, HigherIsCloser(metric) ? 1 : 0, to);
}

// NearestNeighbourResponse.exact, where it is true.
constexpr uint64_t kExactSize = VarintFieldSize(1);

// The vectors of `found` neighbours.
TensorLayout VectorsLayout(const EmbeddingTable& table, NeighbourFields fields, uint64_t found) {
  TensorLayout layout;
  layout.dtype = fields.vectors_as_values ? v1::DTYPE_F32 : WireDtype(table.dtype());
  layout.as_values = fields.vectors_as_values;
  layout.shape = {static_cast<int64_t>(found), table.dim()};
  const uint64_t row_bytes = static_cast<uint64_t>(table.dim()) * WireDtypeSize(layout.dtype);
  layout.payload_bytes = found * row_bytes;
  return layout;
}

}  // namespace

uint64_t SimilarityTailSize(const SimilarityTail& tail) {
  return MetricTailSize(tail.metric) + PackedFieldSize(tail.missing_left) + PackedFieldSize(tail.missing_right);
}

uint64_t MissingPositionsBound(int64_t n) {
  const auto count = static_cast<uint64_t>(n);
  return OptionalBytesFieldSize(count * VarintSize(count));
}

v1::Dtype WireDtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return v1::DTYPE_F32;
    case Dtype::kF16:
      return v1::DTYPE_F16;
    case Dtype::kBF16:
      return v1::DTYPE_BF16;
    case Dtype::kF64:
      return v1::DTYPE_F64;
    case Dtype::kI8:
      return v1::DTYPE_I8;
    case Dtype::kU8:
      return v1::DTYPE_U8;
    case Dtype::kF8E4M3:
      return v1::DTYPE_F8_E4M3;
    case Dtype::kF8E5M2:
      return v1::DTYPE_F8_E5M2;
  }
  return v1::DTYPE_UNSPECIFIED;
}

uint64_t StampedTensorSize(const Snapshot& snapshot, const TensorLayout& tensor) {
  return BytesFieldSize(StampSize(snapshot)) + BytesFieldSize(TensorSize(tensor));
}

uint8_t* WriteStampedTensor(const Snapshot& snapshot, const TensorLayout& tensor, uint8_t* to) {
  to = PutStampField(v1::LookupResponse::kTableFieldNumber, snapshot, to);
  return PutTensorField(v1::LookupResponse::kEmbeddingsFieldNumber, tensor, to);
}

uint64_t MissingPositionsSize(const std::vector<int64_t>& positions) { return PackedFieldSize(positions); }

uint8_t* WriteMissingPositions(const std::vector<int64_t>& positions, uint8_t* to) {
  return PutPackedField(v1::LookupResponse::kMissingPositionsFieldNumber, positions, to);
}

uint64_t SimilarityAnswerSize(const Snapshot& snapshot, const TensorLayout& scores, const SimilarityTail& tail) {
  return StampedTensorSize(snapshot, scores) + SimilarityTailSize(tail);
}

uint8_t* WriteSimilarityAnswer(const Snapshot& snapshot, const TensorLayout& scores, const SimilarityTail& tail,
                               uint8_t* to) {
  uint8_t* const payload = WriteStampedTensor(snapshot, scores, to);
  to = PutMetricTail(tail.metric, payload + scores.payload_bytes);
  to = PutPackedField(Scores::kMissingLeftFieldNumber, tail.missing_left, to);
  PutPackedField(Scores::kMissingRightFieldNumber, tail.missing_right, to);
  return payload;
}

uint64_t NeighbourAnswerBound(const Snapshot& snapshot, Metric metric, NeighbourFields fields, uint64_t num_queries,
                              uint64_t found) {
  const uint64_t id_size = VarintSize(static_cast<uint64_t>(snapshot.table->num_rows() - 1));
  uint64_t result = OptionalBytesFieldSize(found * id_size) + OptionalBytesFieldSize(found * sizeof(float));
  if (fields.vectors) result += BytesFieldSize(TensorSize(VectorsLayout(*snapshot.table, fields, found)));
  return SaturatingAdd(BytesFieldSize(StampSize(snapshot)) + MetricTailSize(metric) + kExactSize,
                       SaturatingMultiply(num_queries, BytesFieldSize(result)));
}

NeighbourAnswer::NeighbourAnswer(const Snapshot& snapshot, Metric metric, bool exact, NeighbourFields fields,
                                 const std::vector<std::vector<Neighbour>>& results,
                                 const std::vector<int64_t>& missing)
    : snapshot_(snapshot), metric_(metric), exact_(exact), fields_(fields), results_(results), missing_(missing) {
  size_ = BytesFieldSize(StampSize(snapshot)) + MetricTailSize(metric) + (exact ? kExactSize : 0) +
          PackedFieldSize(missing);
  sizes_.reserve(results.size());
  for (const std::vector<Neighbour>& found : results) {
    sizes_.push_back(Measure(found));
    size_ += BytesFieldSize(sizes_.back().result);
  }
}

NeighbourAnswer::Sizes NeighbourAnswer::Measure(const std::vector<Neighbour>& found) const {
  Sizes sizes;
  for (const Neighbour& neighbour : found) sizes.ids += VarintSize(static_cast<uint64_t>(neighbour.id));
  sizes.result = OptionalBytesFieldSize(sizes.ids) + OptionalBytesFieldSize(found.size() * sizeof(float));
  if (fields_.keys) {
    // Elements of a repeated field are written even if they are empty: positions count.
    const Vocabulary& vocabulary = *snapshot_.table->vocabulary();
    for (const Neighbour& neighbour : found) sizes.result += BytesFieldSize(vocabulary.KeyOf(neighbour.id).size());
  }
  if (fields_.vectors) {
    sizes.result += BytesFieldSize(TensorSize(VectorsLayout(*snapshot_.table, fields_, found.size())));
  }
  return sizes;
}

void NeighbourAnswer::Write(uint8_t* to) const {
  const uint8_t* const begin = to;
  to = PutStampField(Answer::kTableFieldNumber, snapshot_, to);
  for (size_t i = 0; i < results_.size(); ++i) {
    to = PutBytesHeader(Answer::kResultsFieldNumber, sizes_[i].result, to);
    to = WriteResult(results_[i], sizes_[i], to);
  }
  to = PutMetricTail(metric_, to);
  if (exact_) to = PutVarintField(Answer::kExactFieldNumber, 1, to);
  to = PutPackedField(Answer::kMissingPositionsFieldNumber, missing_, to);
  assert(static_cast<uint64_t>(to - begin) == size_);
  static_cast<void>(begin);
}

uint8_t* NeighbourAnswer::WriteResult(const std::vector<Neighbour>& found, const Sizes& sizes, uint8_t* to) const {
  const EmbeddingTable& table = *snapshot_.table;
  if (!found.empty()) {
    to = PutBytesHeader(Result::kIdsFieldNumber, sizes.ids, to);
    for (const Neighbour& neighbour : found) to = PutVarint(static_cast<uint64_t>(neighbour.id), to);
    to = PutBytesHeader(Result::kScoresFieldNumber, found.size() * sizeof(float), to);
    for (const Neighbour& neighbour : found) to = PutRaw(&neighbour.score, sizeof neighbour.score, to);
  }
  if (fields_.keys) {
    for (const Neighbour& neighbour : found) {
      const absl::string_view key = table.vocabulary()->KeyOf(neighbour.id);
      to = PutRaw(key.data(), key.size(), PutBytesHeader(Result::kKeysFieldNumber, key.size(), to));
    }
  }
  if (!fields_.vectors) return to;
  const TensorLayout layout = VectorsLayout(table, fields_, found.size());
  to = PutTensorField(Result::kVectorsFieldNumber, layout, to);
  std::vector<int64_t> ids;
  ids.reserve(found.size());
  for (const Neighbour& neighbour : found) ids.push_back(neighbour.id);
  // As stored or as F32: neither can overflow.
  GatherRows(table, ids, fields_.vectors_as_values ? Dtype::kF32 : table.dtype(), reinterpret_cast<std::byte*>(to));
  return to + layout.payload_bytes;
}

}  // namespace embedding
