#include "server/search/row_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "server/kernels/codes.h"
#include "server/kernels/kernels.h"
#include "server/search/column_sums.h"
#include "server/search/scan_blocks.h"
#include "server/table/private_memory.h"

namespace embedding {
namespace {

// The smallest scale beside the largest one.
constexpr double kSmallestScale = 0x1p-10;
constexpr int64_t kBlockRows = 64;

// The float32 value of each element of a row of dtype; `wide`, [dim], is scratch for rows that are not F32.
const float* WideRow(Dtype dtype, const std::byte* row, std::vector<float>& wide) {
  if (dtype == Dtype::kF32) return reinterpret_cast<const float*>(row);
  WidenToF32(ElementTypeOf(dtype), row, wide.size(), wide.data());
  return wide.data();
}

// Fills mean, inverse_scale and mean_norm.
void ScaleColumns(const ColumnSums& sample, RowCodes& codes) {
  const size_t dim = sample.sums.size();
  const double count = sample.count;
  codes.mean.assign(dim, 0.0f);
  codes.inverse_scale.assign(dim, 1.0f);
  if (count == 0) return;
  const bool take_mean_off = sample.HaveCommonMean();
  std::vector<double> deviations(dim);
  double largest = 0;
  double mean_norm_squares = 0;
  for (size_t j = 0; j < dim; ++j) {
    const double mean = take_mean_off ? sample.MeanOf(j) : 0;
    codes.mean[j] = static_cast<float>(mean);
    mean_norm_squares += double{codes.mean[j]} * double{codes.mean[j]};
    deviations[j] = std::sqrt(std::max(0.0, sample.squares[j] / count - (2 * sample.MeanOf(j) - mean) * mean));
    largest = std::max(largest, deviations[j]);
  }
  codes.mean_norm = std::sqrt(mean_norm_squares) * (1 + 0x1p-30);
  if (!(largest > 0)) return;
  for (size_t j = 0; j < dim; ++j) {
    codes.inverse_scale[j] = static_cast<float>(1 / std::max(deviations[j] / largest, kSmallestScale));
  }
}

}  // namespace

absl::Status RowCodesBuilder::Begin(Dtype dtype, int64_t num_rows, int64_t dim, const ReadRow& read) {
  dtype_ = dtype;
  num_rows_ = num_rows;
  dim_ = dim;
  codes_.size_bytes = num_rows * dim;
  absl::StatusOr<std::shared_ptr<std::byte>> bytes =
      AllocatePrivate(static_cast<size_t>(codes_.size_bytes) + kCodeSlack);
  if (!bytes.ok()) return bytes.status();
  bytes_ = *std::move(bytes);
  codes_.memory = TableMemoryClaim::Note(2 * num_rows * static_cast<int64_t>(sizeof(float)));
  codes_.alphas.resize(static_cast<size_t>(num_rows));
  codes_.errors.resize(static_cast<size_t>(num_rows));
  return EstimateColumns(read);
}

absl::Status RowCodesBuilder::EstimateColumns(const ReadRow& read) {
  const auto dim = static_cast<size_t>(dim_);
  ColumnSums sample(dim);
  std::vector<std::byte> row_bytes(dim * DtypeSize(dtype_));
  std::vector<float> wide(dim);
  const int64_t step = std::max<int64_t>(1, num_rows_ / kSampledRows);
  for (int64_t row = 0; row < num_rows_; row += step) {
    if (!read(row, row_bytes.data())) return absl::DataLossError("a row of the sample could not be read");
    float norm;
    NormsOfRows(ElementTypeOf(dtype_), row_bytes.data(), 1, dim_, &norm);
    if (std::isnan(norm)) continue;
    sample.Add(WideRow(dtype_, row_bytes.data(), wide));
  }
  ScaleColumns(sample, codes_);
  return absl::OkStatus();
}

void RowCodesBuilder::Encode(const std::byte* rows, int64_t first_row, int64_t num_rows, CodedRow* coded) {
  const auto dim = static_cast<size_t>(dim_);
  auto* to = reinterpret_cast<uint8_t*>(bytes_.get()) + static_cast<size_t>(first_row) * dim;
  const float* mean = codes_.mean.data();
  const float* inverse_scale = codes_.inverse_scale.data();
  if (dtype_ == Dtype::kF32) {
    EncodeRows(reinterpret_cast<const float*>(rows), static_cast<size_t>(num_rows), dim, mean, inverse_scale, to,
               coded);
    return;
  }
  std::vector<float> wide(dim);
  const size_t row_bytes = dim * DtypeSize(dtype_);
  for (int64_t row = 0; row < num_rows; ++row, rows += row_bytes, to += dim) {
    EncodeRows(WideRow(dtype_, rows, wide), 1, dim, mean, inverse_scale, to, coded + row);
  }
}

void RowCodesBuilder::Add(const std::byte* rows, int64_t first_row, int64_t num_rows, const float* norms) {
  const size_t row_bytes = static_cast<size_t>(dim_) * DtypeSize(dtype_);
  std::vector<int64_t> zero_rows;
  float largest_code_norm = 0;
  CodedRow coded[kBlockRows];
  for (int64_t begin = 0; begin < num_rows; begin += kBlockRows) {
    const int64_t end = std::min(num_rows, begin + kBlockRows);
    Encode(rows + static_cast<size_t>(begin) * row_bytes, first_row + begin, end - begin, coded);
    for (int64_t row = begin; row < end; ++row) {
      const auto i = static_cast<size_t>(first_row + row);
      const CodedRow& facts = coded[row - begin];
      codes_.alphas[i] = facts.alpha;
      codes_.errors[i] = facts.error;
      // The norm of a row of zeros stands for "no length" (row_norms.h), which no quotient may meet here.
      const bool is_zero = norms[row] == static_cast<float>(kMinNorm);
      if (is_zero) zero_rows.push_back(first_row + row);
      if (is_zero || std::isnan(norms[row])) {
        codes_.errors[i] = std::numeric_limits<float>::quiet_NaN();
        codes_.alphas[i] = 0;
      } else {
        largest_code_norm = std::max(largest_code_norm, facts.code_norm);
      }
    }
  }
  MutexLock lock(&mutex_);
  largest_code_norm_ = std::max(largest_code_norm_, largest_code_norm);
  zero_rows_.insert(zero_rows_.end(), zero_rows.begin(), zero_rows.end());
}

RowCodes RowCodesBuilder::Finish() {
  MutexLock lock(&mutex_);
  std::sort(zero_rows_.begin(), zero_rows_.end());
  codes_.zero_rows = std::move(zero_rows_);
  codes_.largest_code_norm = largest_code_norm_;
  codes_.bytes = std::move(bytes_);
  return std::move(codes_);
}

absl::StatusOr<RowCodes> BuildRowCodes(const EmbeddingTable& table, const RowNorms& norms, WorkerPool& pool,
                                       const StopPredicate& stop) {
  RowCodesBuilder builder;
  const auto read = [&](int64_t row, std::byte* to) {
    std::memcpy(to, table.row(row), table.row_bytes());
    return true;
  };
  if (absl::Status s = builder.Begin(table.dtype(), table.num_rows(), table.dim(), read); !s.ok()) return s;
  BlockCounter blocks(table.num_rows(), kBlockRows);
  pool.RunAndWait(pool.num_threads(), [&](int) {
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) {
      builder.Add(table.row(begin), begin, end - begin, norms.norms.data() + begin);
    }
  });
  if (stop && stop()) return absl::CancelledError("coding the rows was stopped");
  return builder.Finish();
}

}  // namespace embedding
