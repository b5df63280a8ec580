#include "server/search/column_sums.h"

namespace embedding {
namespace {

// Share of the rows' mean squared length that a common mean must have to be worth taking off.
constexpr double kWorthwhileMean = 0.1;

}  // namespace

void ColumnSums::Add(const float* row) {
  for (size_t j = 0; j < sums.size(); ++j) {
    sums[j] += double{row[j]};
    squares[j] += double{row[j]} * double{row[j]};
  }
  ++count;
}

bool ColumnSums::HaveCommonMean() const {
  double of_mean = 0;
  double of_rows = 0;
  for (size_t j = 0; j < sums.size() && count > 0; ++j) {
    of_mean += MeanOf(j) * MeanOf(j);
    of_rows += squares[j] / count;
  }
  return count > 0 && of_mean >= kWorthwhileMean * of_rows;
}

}  // namespace embedding
