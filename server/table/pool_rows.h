// Rows of a table made into one vector, as torch.nn.EmbeddingBag does, and vectors made into unit vectors.
//
// Source of the rules: documentation of torch.nn.EmbeddingBag, PyTorch 2. Sums run in double in the order in which rows
// are added, and are rounded once to F32; torch sums in F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/table/embedding_table.h"

namespace embedding {

enum class PoolMode : uint8_t { kSum, kMean, kMax };

// Beside row ids, in what is pooled: a row of zeros, which takes part; and one that takes no part.
inline constexpr int64_t kZeroRow = -1;
inline constexpr int64_t kLeftOut = -2;

// Pools one bag after the other. Not thread-safe; borrows the table.
class RowPooler {
 public:
  // columns: of each row the first so many, in [1, dim].
  RowPooler(const EmbeddingTable& table, PoolMode mode, size_t columns);

  // Adds rows to the bag. ids: each in [0, num_rows), of a row without NaN and infinity; kZeroRow or kLeftOut. weights:
  // one for each id, finite, only with kSum; or null: 1 each.
  void Add(std::span<const int64_t> ids, const float* weights);

  // Writes the bag's vector to `to` [columns] and begins the next bag. A bag to which no row was added gives zeros. The
  // mean is the sum over the count of rows that took part. Returns the first column whose finite value is beyond F32's
  // range, with its value in overflow(), or `columns` if there is none.
  size_t End(float* to);
  double overflow() const { return overflow_; }

 private:
  void AddRow(int64_t id, double weight);
  // The row's columns as F32, valid until the next call.
  const float* Floats(int64_t id);

  const EmbeddingTable& table_;
  const PoolMode mode_;
  const size_t columns_;
  int64_t count_ = 0;           // rows in the bag
  std::vector<double> sums_;    // of kSum and kMean
  std::vector<float> maxima_;   // of kMax
  std::vector<float> widened_;  // the row at hand, unless the table is F32
  double overflow_ = 0;
};

// Divides values [columns], finite, by their length sqrt(sum of squares), which is the one that cosines use
// (kernels/canonical.h); computed in double, each value rounded once. Zeros stay zeros.
void MakeUnitVector(size_t columns, float* values);

}  // namespace embedding
