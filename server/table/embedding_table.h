// Immutable rows [num_rows, dim] with what is known of them.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/table/dtype.h"
#include "server/table/table_options.h"
#include "server/table/vocabulary.h"

namespace embedding {

// Bytes of keys and values that metadata may have.
inline constexpr size_t kMaxMetadataBytes = size_t{16} << 10;

// Owns the rows in private, huge-page-advised memory: nothing that happens to the file after loading changes them.
// Layout: row i starts at rows() + i * row_bytes(), rows are unpadded, elements little-endian, rows() 64-byte aligned.
// Immutable once loaded, so all methods may be called concurrently.
class EmbeddingTable {
 public:
  struct Parts {
    std::string name;
    int64_t num_rows = 0;                            // V >= 1
    int64_t dim = 0;                                 // d >= 1
    Dtype dtype = Dtype::kF32;                       // in memory: any but F64
    Dtype source_dtype = Dtype::kF32;                // in the file
    TableFormat format = TableFormat::kSafetensors;  // as read, never kAuto
    TableMetric metric = TableMetric::kCosine;
    std::shared_ptr<const std::byte> rows;         // num_rows * dim elements; the deleter frees the memory
    std::unique_ptr<const Vocabulary> vocabulary;  // null: no keys
    std::string fingerprint;                       // 32 lower-case hex digits
    int64_t zero_rows = 0;
    std::vector<int64_t> non_finite_rows;  // ascending
    int64_t default_row = -1;              // what stands for missing rows; -1: no such row
    double load_seconds = 0;
    std::map<std::string, std::string> metadata;  // at most kMaxMetadataBytes
    int64_t metadata_bytes_left_out = 0;          // of metadata that was longer
  };

  explicit EmbeddingTable(Parts parts);

  const std::string& name() const { return parts_.name; }
  int64_t num_rows() const { return parts_.num_rows; }
  int64_t dim() const { return parts_.dim; }
  Dtype dtype() const { return parts_.dtype; }
  Dtype source_dtype() const { return parts_.source_dtype; }
  TableFormat format() const { return parts_.format; }
  TableMetric metric() const { return parts_.metric; }
  size_t row_bytes() const { return row_bytes_; }
  int64_t size_bytes() const { return parts_.num_rows * static_cast<int64_t>(row_bytes_); }
  const std::string& fingerprint() const { return parts_.fingerprint; }
  int64_t zero_rows() const { return parts_.zero_rows; }
  // Ascending; empty unless the table was loaded with allow-non-finite=true.
  const std::vector<int64_t>& non_finite_rows() const { return parts_.non_finite_rows; }
  bool IsFinite(int64_t row) const;
  double load_seconds() const { return parts_.load_seconds; }
  // What the file says of itself: __metadata__ of a safetensors file. Empty if it was longer than kMaxMetadataBytes;
  // then metadata_bytes_left_out says how long.
  const std::map<std::string, std::string>& metadata() const { return parts_.metadata; }
  int64_t metadata_bytes_left_out() const { return parts_.metadata_bytes_left_out; }
  // The row that default-row= names; nullopt: none.
  std::optional<int64_t> default_row() const {
    return parts_.default_row < 0 ? std::nullopt : std::optional(parts_.default_row);
  }
  // Null if the table has no keys.
  const Vocabulary* vocabulary() const { return parts_.vocabulary.get(); }

  const std::byte* rows() const { return parts_.rows.get(); }
  // row in [0, num_rows).
  const std::byte* row(int64_t row) const {
    assert(row >= 0 && row < parts_.num_rows);
    return parts_.rows.get() + static_cast<size_t>(row) * row_bytes_;
  }

 private:
  Parts parts_;
  size_t row_bytes_;
};

// Builds a table from rows that are already in memory, with its fingerprint, zero and non-finite rows; for tests and
// tools. bytes: [num_rows, dim] of dtype (any but F64), copied. default_row: -1: none.
std::unique_ptr<EmbeddingTable> TableFromMemory(const std::string& name, Dtype dtype, int64_t num_rows, int64_t dim,
                                                const void* bytes, std::vector<std::string> keys = {},
                                                int64_t default_row = -1);

}  // namespace embedding
