#include "server/table/pool_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "server/kernels/canonical.h"
#include "server/kernels/kernels.h"
#include "server/kernels/pooling.h"

namespace embedding {

RowPooler::RowPooler(const EmbeddingTable& table, PoolMode mode, size_t columns)
    : table_(table), mode_(mode), columns_(columns), widened_(columns) {
  if (mode == PoolMode::kMax) {
    maxima_.resize(columns);
  } else {
    sums_.resize(columns);
  }
}

const float* RowPooler::Floats(int64_t id) {
  if (id == kZeroRow) {
    std::fill(widened_.begin(), widened_.end(), 0.0f);
  } else if (table_.dtype() == Dtype::kF32) {
    return reinterpret_cast<const float*>(table_.row(id));
  } else {
    WidenToF32(ElementTypeOf(table_.dtype()), table_.row(id), columns_, widened_.data());
  }
  return widened_.data();
}

void RowPooler::AddRow(int64_t id, double weight) {
  ++count_;
  if (mode_ != PoolMode::kMax) {
    if (id != kZeroRow) AddScaled(Floats(id), columns_, weight, sums_.data());
  } else if (count_ == 1) {
    std::memcpy(maxima_.data(), Floats(id), columns_ * sizeof(float));
  } else {
    KeepMaxima(Floats(id), columns_, maxima_.data());
  }
}

void RowPooler::Add(std::span<const int64_t> ids, const float* weights) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != kLeftOut) AddRow(ids[i], weights == nullptr ? 1.0 : weights[i]);
  }
}

size_t RowPooler::End(float* to) {
  const int64_t count = std::exchange(count_, 0);
  if (mode_ == PoolMode::kMax) {
    if (count == 0) std::fill(maxima_.begin(), maxima_.end(), 0.0f);
    std::memcpy(to, maxima_.data(), columns_ * sizeof(float));
    return columns_;
  }
  if (mode_ == PoolMode::kMean && count > 1) DivideAll(columns_, static_cast<double>(count), sums_.data());
  const size_t column = NarrowF64ToF32(sums_.data(), columns_, to);
  if (column != columns_) overflow_ = sums_[column];
  std::fill(sums_.begin(), sums_.end(), 0.0);
  return column;
}

void MakeUnitVector(size_t columns, float* values) {
  double square = 0;
  const void* const row = values;
  CanonicalSquaredNorms(ElementType::kF32, &row, 1, columns, &square);
  if (square > 0) DivideAllF32(columns, std::sqrt(square), values);
}

}  // namespace embedding
