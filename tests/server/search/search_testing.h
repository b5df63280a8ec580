// Helpers of the tests of this folder.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "server/kernels/kernels.h"
#include "server/search/exact_index.h"
#include "server/table/embedding_table.h"
#include "tests/testing/reference.h"

namespace embedding::testing {

// values as stored bytes of a dtype. F32, F16, BF16: rounded to nearest even, what overflows becomes infinite. 8 bits:
// 40 times the value for integers, so that few are equal; the nearest, what overflows becomes the largest.
inline std::vector<uint8_t> Stored(Dtype dtype, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * DtypeSize(dtype));
  if (DtypeSize(dtype) == 1) {
    const float scale = dtype == Dtype::kI8 || dtype == Dtype::kU8 ? 40 : 1;
    for (size_t i = 0; i < values.size(); ++i) bytes[i] = NearestByte(ElementTypeOf(dtype), values[i] * scale);
    return bytes;
  }
  NarrowFromF32(values.data(), values.size(), ElementTypeOf(dtype), bytes.data());
  return bytes;
}

inline std::unique_ptr<EmbeddingTable> TableOf(Dtype dtype, int64_t dim, const std::vector<float>& values) {
  const std::vector<uint8_t> bytes = Stored(dtype, values);
  return TableFromMemory("t", dtype, static_cast<int64_t>(values.size()) / dim, dim, bytes.data());
}

// All elements of a table as doubles, by the reference's own reading.
inline std::vector<double> ReferenceRows(const EmbeddingTable& table) {
  return ReferenceElements({table.rows(), ElementTypeOf(table.dtype())}, table.num_rows() * table.dim());
}

// Scores by their bits: -0 is not 0, and a NaN equals itself.
inline std::vector<std::pair<int64_t, uint32_t>> Bits(const std::vector<Neighbour>& neighbours) {
  std::vector<std::pair<int64_t, uint32_t>> bits;
  bits.reserve(neighbours.size());
  for (const Neighbour& neighbour : neighbours) {
    uint32_t score;
    std::memcpy(&score, &neighbour.score, sizeof(score));
    bits.emplace_back(neighbour.id, score);
  }
  return bits;
}

// Start, and wait for done.
inline NeighbourResult Search(const NeighbourIndex& index, NeighbourQuery query, WorkerPool& pool,
                              StopPredicate stop = {}) {
  auto promise = std::make_shared<std::promise<NeighbourResult>>();
  std::future<NeighbourResult> result = promise->get_future();
  index.Start(std::move(query), pool, std::move(stop),
              [promise](NeighbourResult found) { promise->set_value(std::move(found)); });
  return result.get();
}

// The closeness that candidate_bound.h defines, from the reference's score: F s, 2^t s or -s.
inline double Closeness(Metric metric, float score, const std::vector<double>& query) {
  double squares = 0;
  for (double x : query) squares += x * x;
  const double length = std::sqrt(squares);
  const double scale = std::ldexp(1.0, -std::ilogb(length));
  if (metric == Metric::kEuclidean) return -double{score};
  return metric == Metric::kDot ? double{score} * scale : double{score} * length * scale;
}

}  // namespace embedding::testing
