// What the client's calls take and give: plain values, no view into anything.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace embedding::client {

// Element types of a table's rows. Numbers are those of the wire. I8 and U8 are integers; F8_E4M3 ("e4m3fn": no
// infinity, largest 448) and F8_E5M2 (largest 57344) the 8-bit floats of the Open Compute Project.
enum class Dtype {
  kUnspecified = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF64 = 4,
  kI8 = 5,
  kU8 = 6,
  kF8E4M3 = 7,
  kF8E5M2 = 8
};

// How close two vectors are. Cosine (0 for a zero vector) and dot: higher is closer; euclidean, the true distance:
// lower.
enum class Metric { kTableDefault = 0, kCosine = 1, kDot = 2, kEuclidean = 3 };

// Which pairs Similarity scores: left[i] with right[i], or every left[i] with every right[j].
enum class Layout { kPairwise = 1, kAllPairs = 2 };

// What to answer for an id >= V or a key that does not exist; not every call takes every policy. Numbers are those of
// the wire.
enum class MissingPolicy { kError = 1, kZero = 2, kDefaultRow = 3, kSkip = 4 };

// How the rows of a bag become one vector.
enum class PoolingMode { kSum = 1, kMean = 2, kMax = 3 };

// What each side of a Similarity becomes before it is scored: its vectors as they are, or their mean.
enum class Reduce { kNone = 0, kMean = 1 };

// "F32", "F16", "BF16", "F64", "I8", "U8", "F8_E4M3", "F8_E5M2"; "unspecified" for any other value.
const char* DtypeName(Dtype dtype);
// "cosine", "dot", "euclidean"; "table default" for any other value.
const char* MetricName(Metric metric);
// Bytes of one element; 0 for kUnspecified.
size_t DtypeSize(Dtype dtype);

// Which table. Empty name: the server's only one. Version 0: the one being served.
struct TableRef {
  std::string name;
  uint64_t version = 0;
};

// Which table answered. All parts of one answer come from it.
struct TableStamp {
  std::string name;
  uint64_t version = 0;
  std::string fingerprint;  // equal for replicas that serve equal tables

  friend bool operator==(const TableStamp&, const TableStamp&) = default;
};

// Rows by position, 0 <= id < V. shape: sizes whose product is the count; empty means [n]. More than one dimension only
// in Lookup.
struct Ids {
  std::vector<int64_t> values;
  std::vector<int64_t> shape;
};

// Rows by the table's own strings (UTF-8, compared byte by byte). shape: as in Ids.
struct Keys {
  std::vector<std::string> values;
  std::vector<int64_t> shape;
};

// The caller's own vectors: values [n, dim], row-major; values.size() is a multiple of dim.
struct Vectors {
  std::vector<float> values;
  int64_t dim = 0;
};

using Rows = std::variant<Ids, Keys>;
using VectorSource = std::variant<Ids, Keys, Vectors>;

// A dense array as it came over the wire: little-endian, row-major, unpadded.
struct Tensor {
  Dtype dtype = Dtype::kUnspecified;
  std::vector<int64_t> shape;
  std::string data;

  // The elements, widened exactly. Empty for kF64 and kUnspecified, which no answer holds.
  std::vector<float> ToFloats() const;
};

struct CallOptions {
  std::optional<std::chrono::milliseconds> deadline;  // instead of ClientOptions::deadline; > 0
};

// Turns bags of rows into one vector each, as torch.nn.EmbeddingBag does. An empty bag gives zeros.
struct Pooling {
  PoolingMode mode = PoolingMode::kSum;
  std::vector<int64_t> offsets = {};  // where each bag begins in rows of one dimension; rows [B, N] are B bags without
  bool include_last_offset = false;   // the last offset is the number of rows and ends the last bag
  std::vector<float> weights = {};    // one for each row, only with kSum; empty: 1 each
  std::optional<int64_t> padding_id = std::nullopt;  // rows of this id take no part
};

// In this order: missing rows, pooling, the first `dimensions` columns, normalize, output_dtype.
struct LookupRequest {
  TableRef table;
  Rows rows;
  Dtype output_dtype = Dtype::kUnspecified;  // kUnspecified: as stored, bit for bit (F32 if pooled or normalised); else
                                             // F32, F16, BF16, or the stored one
  std::optional<Pooling> pooling = std::nullopt;
  MissingPolicy missing = MissingPolicy::kError;  // kSkip without pooling needs rows of one dimension
  bool normalize = false;                         // each vector becomes a unit vector; zeros stay zeros
  int32_t dimensions = 0;                         // only the first so many columns; 0: all
};

struct LookupResult {
  TableStamp table;
  Tensor
      embeddings;  // [shape of the rows..., d], in request order, duplicates kept; pooled [bags, d]; skipped [kept, d]
  std::vector<int64_t> missing_positions = {};  // in the request's rows, ascending; none under kError
};

struct SimilarityRequest {
  TableRef table;
  VectorSource left;   // n vectors
  VectorSource right;  // m vectors; m = n for kPairwise without reduce
  Layout layout = Layout::kPairwise;
  Metric metric = Metric::kTableDefault;
  Reduce reduce = Reduce::kNone;                  // kMean: scores [1]; kPairwise only; such a call is never split
  MissingPolicy missing = MissingPolicy::kError;  // or kZero
};

struct SimilarityResult {
  TableStamp table;
  std::vector<int64_t> shape;             // [n], or [n, m] for kAllPairs, or [1] for kMean
  std::vector<float> scores;              // row-major
  Metric metric = Metric::kTableDefault;  // the one used
  bool higher_is_closer = true;
  std::vector<int64_t> missing_left = {};  // positions of the missing rows, ascending; under kZero
  std::vector<int64_t> missing_right = {};
};

// A query by examples, as gensim's most_similar: rows count as unit vectors, vectors of the caller's as they are;
// positives are added, negatives subtracted, each times its weight; the sum over the sum of weights is the query.
struct ExampleQuery {
  std::vector<VectorSource> positive = {};
  std::vector<VectorSource> negative = {};
  std::vector<float> positive_weights = {};  // one for each vector of the sets before, >= 0; empty: 1 each
  std::vector<float> negative_weights = {};
};

// Which rows may be found; all that is given must hold. Ids >= V name no row and are no error.
struct Filter {
  std::optional<std::vector<int64_t>> allow = {};  // only these; present and empty: none
  std::vector<int64_t> deny = {};                  // not these
  int64_t first_row = 0;                           // only first_row <= id < end_row
  int64_t end_row = 0;                             // 0: the end of the table
};

enum class SearchMode { kExact, kApproximate };

struct NearestNeighbourRequest {
  TableRef table;
  VectorSource targets;                     // one query each
  std::vector<ExampleQuery> examples = {};  // one query each, instead of targets
  int32_t k = 10;                           // neighbours of each query, 1..ServerLimits::max_k
  Metric metric = Metric::kTableDefault;
  SearchMode mode = SearchMode::kExact;           // kApproximate needs a table with an index for the metric
  int32_t effort = 0;                             // of kApproximate: 0..65,536, more finds more; 0: the server's choice
  bool include_inputs = false;                    // false: a query leaves out the rows that it names itself
  MissingPolicy missing = MissingPolicy::kError;  // or kSkip: no neighbours for a query that names a missing row
  Filter filter = {};
  std::optional<float> score_threshold = {};  // only rows at least this close
  bool return_keys = false;                   // fill Neighbours::keys; needs a table with keys
  bool return_vectors = false;                // fill Neighbours::vectors
};

// The rows closest to one query: closest first, equal scores by lower id. ids[j], scores[j], keys[j] and row j of
// vectors belong together. At most k; fewer only when fewer rows are eligible after exclusion, filter and threshold.
struct Neighbours {
  std::vector<int64_t> ids;
  std::vector<float> scores;
  std::vector<std::string> keys;  // only with return_keys; empty for a row without a key
  Tensor vectors;                 // only with return_vectors: [found, d], as stored
};

struct NearestNeighbourResult {
  TableStamp table;
  std::vector<Neighbours> results;        // one for each query, in query order
  Metric metric = Metric::kTableDefault;  // the one used
  bool higher_is_closer = true;
  bool exact = true;                            // the closest rows for certain, for every query
  std::vector<int64_t> missing_positions = {};  // queries that name a missing row, ascending; under kSkip
};

enum class TableState { kUnspecified = 0, kLoading = 1, kAvailable = 2, kDraining = 3, kFailed = 4 };

// "loading", "available", "draining", "failed"; "unspecified" for any other value.
const char* TableStateName(TableState state);

// A version that the server knows of: in memory, being loaded, or the last one refused.
struct TableVersion {
  uint64_t version = 0;
  TableState state = TableState::kUnspecified;
  std::string reason;  // of kFailed
};

// Of a table's index for approximate searches.
struct HnswInfo {
  int32_t m = 0;                // links of a row; twice as many on the lowest level
  int32_t ef_construction = 0;  // candidates kept while they were chosen
  int64_t bytes = 0;            // in memory
  double seconds = 0;           // that building or reading it took
  bool from_file = false;
};

struct TableInfo {
  std::string name;
  uint64_t serving_version = 0;
  std::vector<TableVersion> versions;        // ascending
  int64_t rows = 0;                          // V
  int64_t dim = 0;                           // d
  int64_t parameters = 0;                    // V * d
  Dtype dtype = Dtype::kUnspecified;         // in memory
  Dtype source_dtype = Dtype::kUnspecified;  // in the file
  int64_t bytes = 0;                         // of the rows in memory
  int64_t code_bytes = 0;                    // of the codes that make searches faster
  Metric metric = Metric::kTableDefault;     // what kTableDefault means for this table
  bool has_keys = false;
  std::string fingerprint;
  std::string format;       // of the file: what format= of the server's --table names
  double load_seconds = 0;  // that reading and checking the files took
  std::chrono::system_clock::time_point loaded_at;
  int64_t zero_rows = 0;        // whose elements are all 0
  int64_t non_finite_rows = 0;  // that hold NaN or infinity
  // What the file says of itself: __metadata__ of a safetensors file.
  std::map<std::string, std::string> metadata;
  std::string index;             // "hnsw" where SearchMode::kApproximate is possible, by `metric`; else empty
  std::optional<HnswInfo> hnsw;  // of index "hnsw"
};

struct LoadTableRequest {
  std::string name;
  std::string path;                            // within the server's --table-root; empty: the table's own again
  std::map<std::string, std::string> options;  // as after the path of the server's --table, such as {"vocab", "w.txt"}
};

// Limits of one request. The client splits what would pass them; k (max_k) and the ids of a filter (max_filter_ids)
// stay the caller's.
struct ServerLimits {
  int64_t max_ids = 0;
  int64_t max_queries = 0;
  int64_t max_k = 0;
  int64_t max_pairs = 0;
  int64_t max_filter_ids = 0;
  int64_t max_request_bytes = 0;
  int64_t max_response_bytes = 0;
  std::chrono::milliseconds max_deadline{0};

  friend bool operator==(const ServerLimits&, const ServerLimits&) = default;
};

struct ServerInfo {
  std::string version;
  std::string revision;     // commit of its source
  std::string simd_target;  // such as "AVX2"
  std::chrono::milliseconds uptime{0};
  ServerLimits limits;
};

// Keys that start with some bytes.
struct KeyPrefix {
  std::string prefix;  // empty: every key
  int32_t limit = 0;   // 1..10,000; 0 means 10
};

struct ResolveKeysRequest {
  TableRef table;
  std::variant<Ids, Keys, KeyPrefix> query;
};

// ids[i] and keys[i] belong together; the key of a row without one is empty.
struct ResolveKeysResult {
  TableStamp table;
  std::vector<int64_t> ids;
  std::vector<std::string> keys;
};

}  // namespace embedding::client
