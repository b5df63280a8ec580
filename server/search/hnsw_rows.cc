#include "server/search/hnsw_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "server/exec/mutex.h"
#include "server/kernels/canonical.h"
#include "server/kernels/row_pairs.h"
#include "server/search/column_sums.h"
#include "server/search/scan_blocks.h"
#include "server/search/top_k.h"
#include "server/table/private_memory.h"

namespace embedding {
namespace {

// Above, dot products with bytes could pass 2^31.
constexpr int64_t kMostCodedDim = 65536;
// Of so many rows the closest ones are looked for, to see whether codes find them.
constexpr size_t kSampledQueries = 32;
constexpr size_t kSampledNeighbours = 10;
// Compared with all of those before the next ones.
constexpr size_t kComparedRows = 256;
// Of those neighbours, the share that codes must find. A walk keeps many more candidates than it returns, which makes
// up for codes that confuse some; where codes confuse most, no effort does.
constexpr double kWantedShare = 0.8;
// At least how far a row divided by its length in float32 is from the true one.
constexpr float kUnitError = 0x1p-22f;
// More of a row than this is left to the processor's own prefetcher.
constexpr size_t kMostPrefetchedBytes = 1024;

// Serial, in double: the same everywhere.
float DotOf(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) sum += double{a[j]} * double{b[j]};
  return static_cast<float>(sum);
}

void SubtractFrom(std::vector<float>& a, const std::vector<float>& b) {
  for (size_t j = 0; j < a.size(); ++j) a[j] -= b[j];
}

// The whole numbers that bytes of codes stand for, and their sum. Few per call, so a kernel of its own would not pay.
template <typename T>
int32_t CentreCodes(const uint8_t* codes, size_t dim, T* query) {
  int32_t sum = 0;
  for (size_t j = 0; j < dim; ++j) {
    query[j] = static_cast<T>(codes[j] - 128);
    sum += codes[j];
  }
  return sum - 128 * static_cast<int32_t>(dim);
}

}  // namespace

HnswQuery::HnswQuery(const HnswRows& rows) : rows_(rows), values_(rows.dim_) {
  if (!rows.is_coded()) return;
  codes_.resize(rows.dim_);
  if (HasFastByteDots()) {
    bytes_.resize(rows.dim_ + kCodeSlack);
  } else {
    words_.resize(rows.dim_ + kCodeSlack);
  }
}

bool HnswQuery::SetVector(VectorView vector) {
  std::vector<double> wide(values_.size());
  WidenToF64(vector.type, vector.data, wide.size(), wide.data());
  const void* row = wide.data();
  double squares = 0;
  CanonicalSquaredNorms(ElementType::kF64, &row, 1, wide.size(), &squares);
  const double norm = std::sqrt(squares);
  if (!(norm >= kMinNorm && norm <= kMaxNorm)) return false;
  const double scale = rows_.metric_ == Metric::kEuclidean ? 1 : 1 / norm;
  // In double: far from zero, float32 would round away what sets the query apart from the mean.
  const bool is_centred = rows_.is_coded() && rows_.metric_ == Metric::kEuclidean && !rows_.mean_.empty();
  for (size_t j = 0; j < wide.size(); ++j) {
    values_[j] = static_cast<float>(wide[j] * scale - (is_centred ? double{rows_.mean_[j]} : 0.0));
  }
  if (rows_.is_coded()) Encode();
  return true;
}

void HnswQuery::SetRow(uint32_t row) {
  if (rows_.is_coded()) return TakeRecord(row);
  rows_.WidenRow(row, values_.data());
}

void HnswQuery::TakeRecord(uint32_t row) {
  TakeCodes(reinterpret_cast<const uint8_t*>(rows_.records_.get()) + row * rows_.stride_);
  const HnswRows::Facts facts = rows_.FactsOf(row);
  const float half = rows_.metric_ == Metric::kEuclidean ? 0.5f : 1.0f;  // Facts there are of twice the product
  scale_ = facts.factor * half;
  row_reach_ = scale_ * rows_.largest_code_norm_ + facts.error * half;
  query_reach_ = facts.error * half * rows_.largest_code_norm_;
  offset_weight_ = 1;
  constant_ = facts.offset - rows_.squared_mean_;
}

void HnswQuery::TakeCodes(const uint8_t* codes) {
  bias_ = 128 * (words_.empty() ? CentreCodes(codes, values_.size(), bytes_.data())
                                : CentreCodes(codes, values_.size(), words_.data()));
}

void HnswQuery::Encode() {
  offset_weight_ = 0;
  constant_ = 0;
  if (rows_.metric_ == Metric::kEuclidean) {
    offset_weight_ = 1;
    constant_ = -DotOf(values_, values_);
  } else if (!rows_.mean_.empty()) {
    constant_ = DotOf(values_, rows_.mean_);
  }
  CodedRow coded;
  EncodeRows(values_.data(), 1, values_.size(), rows_.zeros_.data(), rows_.ones_.data(), codes_.data(), &coded);
  TakeCodes(codes_.data());
  scale_ = coded.alpha;
  row_reach_ = coded.alpha * coded.code_norm + coded.error;  // at least |q|
  query_reach_ = coded.error * rows_.largest_code_norm_;
}

absl::StatusOr<HnswRows> HnswRows::Build(const EmbeddingTable& table, Metric metric, const RowNorms& norms,
                                         const std::vector<bool>& inside, WorkerPool& pool, const StopPredicate& stop) {
  HnswRows rows;
  rows.metric_ = metric;
  rows.table_ = &table;
  rows.dim_ = static_cast<size_t>(table.dim());
  std::vector<uint32_t> sample;
  std::vector<uint32_t> all;
  for (size_t row = 0; row < inside.size(); ++row) {
    if (inside[row]) all.push_back(static_cast<uint32_t>(row));
  }
  const size_t step = std::max<size_t>(1, all.size() / static_cast<size_t>(kSampledRows));
  for (size_t i = 0; i < all.size(); i += step) sample.push_back(all[i]);
  if (metric == Metric::kCosine) {
    rows.inverse_norms_.assign(inside.size(), 0.0f);
    for (const uint32_t row : all) rows.inverse_norms_[row] = 1 / norms.norms[row];
  }
  if (table.dim() <= kMostCodedDim) {
    rows.EstimateMean(sample);
    if (absl::Status s = rows.Encode(inside, pool, stop); !s.ok()) return s;
    const bool keep_codes = rows.CodesTellRowsApart(all, pool, stop);
    if (stop && stop()) return absl::CancelledError("indexing was stopped");
    if (keep_codes) {
      rows.inverse_norms_ = std::vector<float>();  // `= {}` would keep the memory
    } else {
      rows.records_ = nullptr;
    }
  }
  rows.memory_ = TableMemoryClaim::Note(static_cast<int64_t>(rows.inverse_norms_.size() * sizeof(float)));
  rows.prefetch_bytes_ = std::min(kMostPrefetchedBytes, rows.is_coded() ? rows.stride_ : table.row_bytes());
  return rows;
}

void HnswRows::EstimateMean(const std::vector<uint32_t>& sample) {
  ColumnSums sums(dim_);
  std::vector<float> wide(dim_);
  for (const uint32_t row : sample) {
    WidenRow(row, wide.data());
    sums.Add(wide.data());
  }
  if (!sums.HaveCommonMean()) return;
  for (size_t j = 0; j < dim_; ++j) mean_.push_back(static_cast<float>(sums.MeanOf(j)));
  if (metric_ != Metric::kEuclidean) squared_mean_ = DotOf(mean_, mean_);
}

void HnswRows::WidenRow(uint32_t row, float* values) const {
  WidenToF32(ElementTypeOf(table_->dtype()), table_->row(row), dim_, values);
  if (metric_ != Metric::kCosine) return;
  const float inverse_norm = inverse_norms_[row];
  for (size_t j = 0; j < dim_; ++j) values[j] *= inverse_norm;
}

absl::Status HnswRows::Encode(const std::vector<bool>& inside, WorkerPool& pool, const StopPredicate& stop) {
  stride_ = (dim_ + sizeof(Facts) + kCodeSlack - 1) / kCodeSlack * kCodeSlack;
  absl::StatusOr<std::shared_ptr<std::byte>> records = AllocatePrivate(inside.size() * stride_);
  if (!records.ok()) return records.status();
  records_ = *std::move(records);
  zeros_.assign(dim_, 0.0f);
  ones_.assign(dim_, 1.0f);

  const float* mean = mean_.empty() ? zeros_.data() : mean_.data();
  Mutex mutex;
  BlockCounter blocks(static_cast<int64_t>(inside.size()), 64);
  pool.RunAndWait(pool.num_threads(), [&](int) {
    std::vector<float> wide(dim_);
    float largest = 0;
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) {
      for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
        if (!inside[row]) continue;
        WidenRow(static_cast<uint32_t>(row), wide.data());
        std::byte* to = records_.get() + row * stride_;
        CodedRow coded;
        EncodeRows(wide.data(), 1, dim_, mean, ones_.data(), reinterpret_cast<uint8_t*>(to), &coded);
        largest = std::max(largest, coded.code_norm);
        Facts facts = {coded.alpha, 0, coded.error};
        if (metric_ == Metric::kEuclidean) {
          if (!mean_.empty()) SubtractFrom(wide, mean_);
          facts = {2 * coded.alpha, -DotOf(wide, wide), 2 * coded.error};
        } else if (!mean_.empty()) {
          facts.offset = DotOf(wide, mean_);
        }
        std::memcpy(to + stride_ - sizeof(Facts), &facts, sizeof(Facts));
      }
    }
    MutexLock lock(&mutex);
    largest_code_norm_ = std::max(largest_code_norm_, largest);
  });
  return stop && stop() ? absl::CancelledError("indexing was stopped") : absl::OkStatus();
}

bool HnswRows::CodesTellRowsApart(const std::vector<uint32_t>& rows, WorkerPool& pool,
                                  const StopPredicate& stop) const {
  if (rows.size() < 2) return true;
  const size_t wanted = std::min(kSampledNeighbours, rows.size() - 1);
  std::vector<uint32_t> asked;
  const size_t step = std::max<size_t>(1, rows.size() / kSampledQueries);
  for (size_t i = 0; i < rows.size() && asked.size() < kSampledQueries; i += step) asked.push_back(rows[i]);

  // Of all rows: among some, the closest would be farther apart than they are.
  using Closest = std::vector<TopK>;  // [asked]; higher is closer, as of a dot product
  Closest by_codes(asked.size(), TopK(Metric::kDot, wanted));
  Closest stored = by_codes;
  Mutex mutex;
  BlockCounter blocks(static_cast<int64_t>(rows.size()), kComparedRows);
  pool.RunAndWait(pool.num_threads(), [&](int) {
    Closest lane_by_codes(asked.size(), TopK(Metric::kDot, wanted));
    Closest lane_stored = lane_by_codes;
    std::vector<HnswQuery> queries(asked.size(), HnswQuery(*this));
    for (size_t i = 0; i < asked.size(); ++i) SetCodesAndValues(asked[i], queries[i]);
    std::array<float, kComparedRows> closeness;
    int64_t begin;
    int64_t end;
    while (!(stop && stop()) && blocks.Take(&begin, &end)) {
      const uint32_t* ids = rows.data() + begin;
      const auto count = static_cast<size_t>(end - begin);
      const auto add = [&](uint32_t query, TopK& closest) {
        for (size_t n = 0; n < count; ++n) {
          if (ids[n] != query) closest.Add({ids[n], closeness[n]});
        }
      };
      for (size_t i = 0; i < asked.size(); ++i) {
        JudgeCodes(queries[i], ids, count, closeness.data());
        add(asked[i], lane_by_codes[i]);
        JudgeStored(queries[i], ids, count, closeness.data());
        add(asked[i], lane_stored[i]);
      }
    }
    MutexLock lock(&mutex);
    for (size_t i = 0; i < asked.size(); ++i) {
      by_codes[i].Merge(std::move(lane_by_codes[i]));
      stored[i].Merge(std::move(lane_stored[i]));
    }
  });
  if (stop && stop()) return true;

  size_t found = 0;
  HnswQuery query(*this);
  for (size_t i = 0; i < asked.size(); ++i) {
    SetCodesAndValues(asked[i], query);
    const float least = stored[i].TakeSorted().back().score;
    for (const Neighbour& row : by_codes[i].TakeSorted()) {
      // Counted by values, so that rows that tie are as good as each other.
      const auto id = static_cast<uint32_t>(row.id);
      float closeness;
      JudgeStored(query, &id, 1, &closeness);
      found += closeness >= least ? 1 : 0;
    }
  }
  return static_cast<double>(found) >= kWantedShare * static_cast<double>(wanted * asked.size());
}

void HnswRows::SetCodesAndValues(uint32_t row, HnswQuery& query) const {
  query.SetRow(row);
  WidenToF32(ElementTypeOf(table_->dtype()), table_->row(row), dim_, query.values_.data());
}

void HnswRows::Judge(HnswQuery& query, const uint32_t* ids, size_t count, float* closeness) const {
  if (is_coded()) return JudgeCodes(query, ids, count, closeness);
  JudgeStored(query, ids, count, closeness);
}

void HnswRows::JudgeCodes(HnswQuery& query, const uint32_t* ids, size_t count, float* closeness) const {
  if (query.dots_.size() < count) query.dots_.resize(count);
  const CodeRecords records = {reinterpret_cast<const uint8_t*>(records_.get()), stride_, dim_};
  if (query.words_.empty()) {
    CodeDotToRecords(query.bytes_.data(), records, ids, count, query.dots_.data());
  } else {
    CodeDotToRecords(query.words_.data(), records, ids, count, query.dots_.data());
  }
  // In variables of their own, as `closeness` might lie among the query's fields, for all the compiler knows.
  const float scale = query.scale_;
  const float weight = query.offset_weight_;
  const float constant = query.constant_;
  const int32_t bias = query.bias_;
  const int32_t* dots = query.dots_.data();
  const std::byte* facts_begin = records_.get() + stride_ - sizeof(Facts);
  for (size_t i = 0; i < count; ++i) {
    Facts facts;
    std::memcpy(&facts, facts_begin + ids[i] * stride_, sizeof(Facts));
    closeness[i] = facts.factor * (scale * static_cast<float>(dots[i] - bias)) + (facts.offset * weight + constant);
  }
}

void HnswRows::JudgeStored(HnswQuery& query, const uint32_t* ids, size_t count, float* closeness) const {
  query.addresses_.clear();
  for (size_t i = 0; i < count; ++i) query.addresses_.push_back(table_->row(ids[i]));
  const ElementType type = ElementTypeOf(table_->dtype());
  if (metric_ == Metric::kEuclidean) {
    SquaredL2ToRows(query.values_.data(), type, query.addresses_.data(), count, dim_, closeness);
    for (size_t i = 0; i < count; ++i) closeness[i] = -closeness[i];
    return;
  }
  DotToRows(query.values_.data(), type, query.addresses_.data(), count, dim_, closeness);
  if (metric_ != Metric::kCosine) return;
  for (size_t i = 0; i < count; ++i) closeness[i] *= inverse_norms_[ids[i]];
}

float HnswRows::ReachOf(const HnswQuery& query, uint32_t row, float closeness) const {
  if (!is_coded()) return std::numeric_limits<float>::infinity();
  const Facts facts = FactsOf(row);
  // A few roundings of each term.
  const float slack =
      0x1p-20f * (std::abs(closeness) + std::abs(facts.offset * query.offset_weight_) + std::abs(query.constant_));
  const float of_lengths = metric_ == Metric::kCosine ? 2 * kUnitError : 0;
  return query.row_reach_ * facts.error + query.query_reach_ * facts.factor + of_lengths + slack;
}

}  // namespace embedding
