// The rows of a table as the tester knows them, and the scores that follow from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "embedding/v1/embedding.pb.h"

namespace embedding::loadtest {

// A copy of a table's rows and stamp, filled once in a quiet moment, one row per call, so that no answer to a batch is
// trusted. Const methods are safe for any number of threads.
class ReferenceTable {
 public:
  // rows, dim and dtype of the table; rows still to be set.
  explicit ReferenceTable(const v1::TableInfo& table);

  // Takes the row from a Lookup of that one id. False, with the reason in *error, when the answer is not one row of the
  // table's dtype and width, or names another version than the rows before it.
  bool SetRow(int64_t id, const v1::LookupResponse& answer, std::string* error);

  int64_t rows() const { return num_rows_; }
  int64_t row_bytes() const { return row_bytes_; }
  const char* row(int64_t id) const { return data_.data() + id * row_bytes_; }
  const v1::TableStamp& stamp() const { return stamp_; }

  // The score that the contract promises for two rows, to the bit: in double, 8 partial sums (element j to sum j mod 8)
  // added as ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)), cosine = ab/(sqrt(aa)*sqrt(bb)) clamped to [-1, 1] and 0 for a zero
  // row, euclidean = sqrt(sum of squared differences), rounded once to float, beyond its range +-FLT_MAX.
  float Score(v1::Metric metric, int64_t a, int64_t b) const;

  // The k closest rows to row `query` without it: closest first, equal scores by lower id. Rows with NaN or infinity
  // never appear. Reads every row.
  void Neighbours(v1::Metric metric, int64_t query, int64_t k, std::vector<int64_t>* ids,
                  std::vector<float>* scores) const;

 private:
  double Element(const char* row, int64_t column) const;
  void Widen(int64_t id, std::vector<double>* out) const;
  float ScoreOf(v1::Metric metric, const double* a, const double* b) const;

  const int64_t num_rows_;
  const int64_t dim_;
  const v1::Dtype dtype_;
  const int64_t row_bytes_;
  std::vector<char> data_;
  v1::TableStamp stamp_;
};

// Whether a score closes in upwards.
bool HigherIsCloser(v1::Metric metric);

}  // namespace embedding::loadtest
