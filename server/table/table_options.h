// What an operator says of a table: --table NAME=PATH[,key=value...].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/dtype.h"
#include "server/table/vocabulary.h"

namespace embedding {

// How a file is laid out; kAuto: told by magic, then by extension.
enum class TableFormat : uint8_t {
  kAuto,
  kSafetensors,
  kNpy,
  kFbin,
  kF16bin,
  kU8bin,
  kI8bin,
  kFvecs,
  kBvecs,
  kWord2vec,
  kWord2vecText,
  kGlove,
  kRaw
};

// "safetensors", "npy", "fbin", "f16bin", "u8bin", "i8bin", "fvecs", "bvecs", "word2vec", "word2vec-text", "glove",
// "raw"; "auto" for kAuto.
absl::string_view TableFormatName(TableFormat format);

// Whether files of the format hold a key for each row, so that there is no vocab= beside them.
bool HoldsKeys(TableFormat format);

// The value of codes=: whether searches get 8-bit codes of the rows, a byte an element. kAuto: for F32 tables, where
// memory allows.
enum class CodesOption : uint8_t { kAuto, kOn, kOff };

// Bounds of hnsw-m= and hnsw-ef-construction=.
inline constexpr int kMinHnswM = 2;
inline constexpr int kMaxHnswM = 128;
inline constexpr int kMaxHnswEfConstruction = 4096;

// The value of metric=, kept as a word here: only search/ knows what a metric means.
enum class TableMetric : uint8_t { kCosine, kDot, kEuclidean };

struct TableOptions {
  std::string name;                           // [A-Za-z0-9_.-]{1,64}
  std::string path;                           // never empty
  std::string tensor;                         // tensor=: safetensors only; empty: the only 2-D float tensor
  TableFormat format = TableFormat::kAuto;    // format=
  std::optional<Dtype> dtype;                 // dtype=: raw only
  int64_t dim = 0;                            // dim=: raw only; 0: not given
  std::string vocab;                          // vocab=: path, relative ones to the table's folder; empty: no keys
  KeyPolicy keys;                             // invalid-keys=refuse|skip, duplicate-keys=refuse|first
  TableMetric metric = TableMetric::kCosine;  // metric=cosine|dot|euclidean
  CodesOption codes = CodesOption::kAuto;     // codes=auto|on|off
  bool hnsw = false;                          // index=hnsw: a graph for approximate searches, by the table's metric
  int hnsw_m = 16;                            // hnsw-m=: kMinHnswM..kMaxHnswM
  int hnsw_ef_construction = 200;             // hnsw-ef-construction=: 1..kMaxHnswEfConstruction
  std::string default_row;                    // default-row=: a row id, or a key that is no number; empty: none
  bool allow_non_finite = false;              // allow-non-finite=true|false
  bool allow_dim_change = false;              // allow-dim-change=true|false: a reload may bring another width

  // The options as they were given, key and value, in their order; each key once.
  std::vector<std::pair<std::string, std::string>> given;
};

// Bounds that hold for every table; flags --max-rows and --max-dim.
struct TableLimits {
  int64_t max_rows = 2147483647;
  int64_t max_dim = 65536;
};

// Parses one value of --table. INVALID_ARGUMENT names the part, its value and what is allowed.
absl::StatusOr<TableOptions> ParseTableOptions(absl::string_view text);

// The same from its parts: name, path, and each key and value at most once.
absl::StatusOr<TableOptions> MakeTableOptions(absl::string_view name, absl::string_view path,
                                              const std::vector<std::pair<std::string, std::string>>& given);

// Whether a name is [A-Za-z0-9_.-]{1,64}.
bool IsTableName(absl::string_view name);

}  // namespace embedding
