// How walks through a graph judge rows: by 8-bit codes beside which lies all else that a walk asks of a row, or, where
// codes cannot tell the rows of a table apart, by the rows as stored.
//
// Closeness: cosine, dot product, or minus the squared distance, of approximate value; higher is closer. It chooses
// where a walk goes and what is scored canonically afterwards.
//
// Codes as in kernels/codes.h: x = mean + alpha c + r for a row, for cosine over its length, and q = b u + e for a
// query, c and u whole numbers of 8 bits, so that q.x is about q.mean + alpha b (u.c). The codes of a row serve as
// those of a query: x.y is about x.mean + y.mean - |mean|^2 + alpha beta (c.d). For squared distances the mean is taken
// off both sides. u.c is an exact integer, and what is made of it here is rounded the same way everywhere: the
// closeness of two rows, and so the graph that is built by it, is the same on every machine. Columns keep their scales,
// unlike those of row_codes.h: what evens out rows makes queries as much more uneven, which 8 bits cannot hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/worker_pool.h"
#include "server/kernels/codes.h"
#include "server/search/metric.h"
#include "server/search/row_norms.h"
#include "server/search/score.h"
#include "server/search/similarity.h"
#include "server/table/embedding_table.h"
#include "server/table/table_memory.h"

namespace embedding {

class HnswRows;

// What rows are judged beside: one vector at a time, of rows that outlive it. Not thread-safe.
class HnswQuery {
 public:
  explicit HnswQuery(const HnswRows& rows);

  // vector: [dim], finite, not needed any more after the call. As a unit vector for cosine and dot, whose order of rows
  // is the same for every length. False, and no query: lengths outside [kMinNorm, kMaxNorm] (row_norms.h), zero among
  // them, beside which float32 could overflow or tell nothing.
  bool SetVector(VectorView vector);
  // A row of the graph, of its own length.
  void SetRow(uint32_t row);

 private:
  friend class HnswRows;
  // From values_, for squared distances without the mean.
  void Encode();
  // The codes of a row as those of a query.
  void TakeRecord(uint32_t row);
  // Brings [dim] codes into the form that is multiplied.
  void TakeCodes(const uint8_t* codes);

  const HnswRows& rows_;
  std::vector<float> values_;  // [dim]
  // Of coded rows: u in the form that is multiplied faster, the other is empty; kCodeSlack zeros behind.
  std::vector<int8_t> bytes_;
  std::vector<int16_t> words_;
  int32_t bias_ = 0;         // 128 sum_j u_j
  float scale_ = 0;          // b
  float offset_weight_ = 0;  // factor of a row's offset: 0 or 1
  float constant_ = 0;       // of every closeness
  float row_reach_ = 0;      // factor of a row's error
  float query_reach_ = 0;    // factor of a row's factor
  std::vector<uint8_t> codes_;
  std::vector<int32_t> dots_;
  std::vector<const void*> addresses_;
};

// Immutable once built, so it may be shared between threads.
class HnswRows {
 public:
  // Reads the table twice; not to be called from a worker of the pool. inside: as HnswOutsiders; the others are never
  // judged. RESOURCE_EXHAUSTED as AllocatePrivate, CANCELLED once stop, asked from any worker, says so.
  static absl::StatusOr<HnswRows> Build(const EmbeddingTable& table, Metric metric, const RowNorms& norms,
                                        const std::vector<bool>& inside, WorkerPool& pool,
                                        const StopPredicate& stop = {});

  Metric metric() const { return metric_; }
  // Whether rows are judged by codes.
  bool is_coded() const { return records_ != nullptr; }
  // Of the codes and what lies beside them; 0 without.
  int64_t size_bytes() const { return is_coded() ? table_->num_rows() * static_cast<int64_t>(stride_) : 0; }

  // Asks for the memory of a row.
  void Prefetch(uint32_t row) const {
    const auto* at = is_coded() ? records_.get() + row * stride_ : reinterpret_cast<const std::byte*>(table_->row(row));
    for (size_t offset = 0; offset < prefetch_bytes_; offset += 64) __builtin_prefetch(at + offset);
  }

  // closeness[i] of rows ids[i], i in [0, count), beside the query, which is of these rows.
  void Judge(HnswQuery& query, const uint32_t* ids, size_t count, float* closeness) const;

  // How far the closeness that Judge gave a row may be from the true one, apart from what all rows share, which changes
  // no order: by Cauchy-Schwarz, as in code_bound.h. Infinity for rows judged as stored.
  float ReachOf(const HnswQuery& query, uint32_t row, float closeness) const;

 private:
  friend class HnswQuery;
  // Stands at the end of a record.
  struct Facts {
    float factor = 0;  // closeness = factor * b (u.c) + offset * (the query's offset_weight_) + the query's constant_
    float offset = 0;  // x.mean; euclidean: -|x - mean|^2
    float error = 0;   // at least |r|; euclidean: twice that
  };

  HnswRows() = default;
  // Takes the mean of sampled rows off where they share much of it.
  void EstimateMean(const std::vector<uint32_t>& sample);
  absl::Status Encode(const std::vector<bool>& inside, WorkerPool& pool, const StopPredicate& stop);
  // values: [dim]. What is coded of a row: its elements, for cosine over its length.
  void WidenRow(uint32_t row, float* values) const;
  Facts FactsOf(uint32_t row) const {
    Facts facts;
    std::memcpy(&facts, records_.get() + (row + 1) * stride_ - sizeof(Facts), sizeof(Facts));
    return facts;
  }
  void JudgeCodes(HnswQuery& query, const uint32_t* ids, size_t count, float* closeness) const;
  void JudgeStored(HnswQuery& query, const uint32_t* ids, size_t count, float* closeness) const;
  // Whether, for some of the rows, the closest of all by codes are the closest by what is stored. Reads the table once.
  // Stopped, it means nothing.
  bool CodesTellRowsApart(const std::vector<uint32_t>& rows, WorkerPool& pool, const StopPredicate& stop) const;
  // Makes a row the query of JudgeCodes and of JudgeStored, for the latter of its own length.
  void SetCodesAndValues(uint32_t row, HnswQuery& query) const;

  Metric metric_ = Metric::kCosine;
  const EmbeddingTable* table_ = nullptr;
  size_t dim_ = 0;
  std::shared_ptr<std::byte> records_;  // [num_rows, stride_]: codes, zeros, Facts; null: rows are judged as stored
  size_t stride_ = 0;
  float largest_code_norm_ = 0;
  std::vector<float> mean_;           // [dim], or empty where none was taken off
  float squared_mean_ = 0;            // |mean|^2; euclidean: 0
  std::vector<float> zeros_;          // [dim]
  std::vector<float> ones_;           // [dim]
  std::vector<float> inverse_norms_;  // [num_rows] of rows judged as stored, for cosine; else empty
  TableMemoryClaim memory_;           // of inverse_norms_
  size_t prefetch_bytes_ = 0;         // of a row
};

}  // namespace embedding
