#include "server/search/row_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "server/exec/mutex.h"
#include "server/kernels/codes.h"
#include "server/kernels/kernels.h"
#include "server/search/scan_blocks.h"
#include "server/table/private_memory.h"

namespace embedding {
namespace {

// Rows that mean and scales are estimated from: a relative error of about 1 / sqrt(2 * 2048), 2 %.
constexpr int64_t kSampledRows = 2048;
// Share of the rows' mean squared length that a common mean must have to be worth taking off.
constexpr double kWorthwhileMean = 0.1;
// The smallest scale beside the largest one.
constexpr double kSmallestScale = 0x1p-10;
constexpr int64_t kBlockRows = 64;

// The float32 value of each element of a row; `wide` is scratch for rows that are not F32.
const float* WideRow(const EmbeddingTable& table, int64_t row, std::vector<float>& wide) {
  if (table.dtype() == Dtype::kF32) return reinterpret_cast<const float*>(table.row(row));
  WidenToF32(ElementTypeOf(table.dtype()), table.row(row), wide.size(), wide.data());
  return wide.data();
}

// Fills mean, inverse_scale and mean_norm.
void EstimateColumns(const EmbeddingTable& table, const RowNorms& norms, RowCodes& codes) {
  const auto dim = static_cast<size_t>(table.dim());
  std::vector<double> sums(dim);
  std::vector<double> squares(dim);
  std::vector<float> wide(dim);
  const int64_t step = std::max<int64_t>(1, table.num_rows() / kSampledRows);
  double count = 0;
  for (int64_t row = 0; row < table.num_rows(); row += step) {
    const float norm = norms.norms[static_cast<size_t>(row)];
    if (std::isnan(norm)) continue;
    const float* values = WideRow(table, row, wide);
    for (size_t j = 0; j < dim; ++j) {
      sums[j] += double{values[j]};
      squares[j] += double{values[j]} * double{values[j]};
    }
    ++count;
  }
  codes.mean.assign(dim, 0.0f);
  codes.inverse_scale.assign(dim, 1.0f);
  if (count == 0) return;
  double mean_squares = 0;
  double all_squares = 0;
  for (size_t j = 0; j < dim; ++j) {
    mean_squares += (sums[j] / count) * (sums[j] / count);
    all_squares += squares[j] / count;
  }
  const bool take_mean_off = mean_squares >= kWorthwhileMean * all_squares;
  std::vector<double> deviations(dim);
  double largest = 0;
  double mean_norm_squares = 0;
  for (size_t j = 0; j < dim; ++j) {
    const double mean = take_mean_off ? sums[j] / count : 0;
    codes.mean[j] = static_cast<float>(mean);
    mean_norm_squares += double{codes.mean[j]} * double{codes.mean[j]};
    deviations[j] = std::sqrt(std::max(0.0, squares[j] / count - (2 * sums[j] / count - mean) * mean));
    largest = std::max(largest, deviations[j]);
  }
  codes.mean_norm = std::sqrt(mean_norm_squares) * (1 + 0x1p-30);
  if (!(largest > 0)) return;
  for (size_t j = 0; j < dim; ++j) {
    codes.inverse_scale[j] = static_cast<float>(1 / std::max(deviations[j] / largest, kSmallestScale));
  }
}

}  // namespace

absl::StatusOr<RowCodes> BuildRowCodes(const EmbeddingTable& table, const RowNorms& norms, WorkerPool& pool,
                                       const StopPredicate& stop) {
  const int64_t num_rows = table.num_rows();
  const auto dim = static_cast<size_t>(table.dim());
  RowCodes codes;
  codes.size_bytes = num_rows * table.dim();
  absl::StatusOr<std::shared_ptr<std::byte>> bytes =
      AllocatePrivate(static_cast<size_t>(codes.size_bytes) + kCodeSlack);
  if (!bytes.ok()) return bytes.status();
  codes.memory = TableMemoryClaim::Note(2 * num_rows * static_cast<int64_t>(sizeof(float)));
  codes.alphas.resize(static_cast<size_t>(num_rows));
  codes.errors.resize(static_cast<size_t>(num_rows));
  EstimateColumns(table, norms, codes);

  Mutex mutex;
  BlockCounter blocks(num_rows, kBlockRows);
  pool.RunAndWait(pool.num_threads(), [&](int) {
    std::vector<float> wide(dim);
    CodedRow coded[kBlockRows];
    float largest_code_norm = 0;
    std::vector<int64_t> zero_rows;
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) {
      auto* to = reinterpret_cast<uint8_t*>(bytes->get()) + static_cast<size_t>(begin) * dim;
      if (table.dtype() == Dtype::kF32) {
        EncodeRows(WideRow(table, begin, wide), static_cast<size_t>(end - begin), dim, codes.mean.data(),
                   codes.inverse_scale.data(), to, coded);
      } else {
        for (int64_t row = begin; row < end; ++row, to += dim) {
          EncodeRows(WideRow(table, row, wide), 1, dim, codes.mean.data(), codes.inverse_scale.data(), to,
                     coded + (row - begin));
        }
      }
      for (int64_t row = begin; row < end; ++row) {
        const auto i = static_cast<size_t>(row);
        const CodedRow& facts = coded[row - begin];
        codes.alphas[i] = facts.alpha;
        codes.errors[i] = facts.error;
        // The norm of a row of zeros stands for "no length" (row_norms.h), which no quotient may meet here.
        if (norms.norms[i] == static_cast<float>(kMinNorm)) zero_rows.push_back(row);
        if (std::isnan(norms.norms[i]) || norms.norms[i] == static_cast<float>(kMinNorm)) {
          codes.errors[i] = std::numeric_limits<float>::quiet_NaN();
          codes.alphas[i] = 0;
        } else {
          largest_code_norm = std::max(largest_code_norm, facts.code_norm);
        }
      }
    }
    MutexLock lock(&mutex);
    codes.largest_code_norm = std::max(codes.largest_code_norm, largest_code_norm);
    codes.zero_rows.insert(codes.zero_rows.end(), zero_rows.begin(), zero_rows.end());
  });
  if (stop && stop()) return absl::CancelledError("coding the rows was stopped");
  std::sort(codes.zero_rows.begin(), codes.zero_rows.end());
  codes.bytes = *std::move(bytes);
  return codes;
}

}  // namespace embedding
