#include "client/loadtest/answer_checker.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "proto/vector_codec.h"

namespace embedding::loadtest {
namespace {

using google::protobuf::io::CodedInputStream;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Field numbers of embedding/v1/embedding.proto, whose contract forbids changing them.
constexpr uint32_t kStampField = v1::LookupResponse::kTableFieldNumber;
constexpr uint32_t kPayloadField = v1::LookupResponse::kEmbeddingsFieldNumber;
static_assert(kPayloadField == v1::SimilarityResponse::kScoresFieldNumber &&
              kPayloadField == v1::NearestNeighbourResponse::kResultsFieldNumber);
constexpr uint32_t kMetricField = v1::SimilarityResponse::kMetricFieldNumber;
static_assert(kMetricField == v1::NearestNeighbourResponse::kMetricFieldNumber);
constexpr uint32_t kDirectionField = v1::SimilarityResponse::kHigherIsCloserFieldNumber;
static_assert(kDirectionField == v1::NearestNeighbourResponse::kHigherIsCloserFieldNumber);

// Any field that this program does not need: the contract may grow.
bool SkipValue(uint32_t wire_type, CodedInputStream& in) {
  switch (wire_type) {
    case kVarint: {
      uint64_t ignored;
      return in.ReadVarint64(&ignored);
    }
    case kFixed64:
      return in.Skip(8);
    case kBytes: {
      int length;
      return in.ReadVarintSizeAsInt(&length) && in.Skip(length);
    }
    case kFixed32:
      return in.Skip(4);
    default:
      return false;
  }
}

// Appends a repeated int64: packed or not.
bool ReadInts(uint32_t wire_type, CodedInputStream& in, std::vector<int64_t>* out) {
  uint64_t value;
  if (wire_type == kVarint) {
    if (!in.ReadVarint64(&value)) return false;
    out->push_back(static_cast<int64_t>(value));
    return true;
  }
  int length;
  if (wire_type != kBytes || !in.ReadVarintSizeAsInt(&length)) return false;
  const CodedInputStream::Limit limit = in.PushLimit(length);
  while (in.BytesUntilLimit() > 0) {
    if (!in.ReadVarint64(&value)) return false;
    out->push_back(static_cast<int64_t>(value));
  }
  in.PopLimit(limit);
  return true;
}

// Appends count little-endian floats.
bool AppendFloats(CodedInputStream& in, int64_t count, std::vector<float>* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    if (!in.ReadLittleEndian32(&bits)) return false;
    out->push_back(std::bit_cast<float>(bits));
  }
  return true;
}

std::string Format(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

}  // namespace

AnswerChecker::AnswerChecker(const Workload& workload, const ReferenceTable* reference)
    : workload_(workload), reference_(reference) {}

bool AnswerChecker::Malformed(std::string complaint) {
  verdict_ = Verdict::kMalformed;
  complaint_ = std::move(complaint);
  return false;
}

bool AnswerChecker::Mismatch(std::string complaint) {
  verdict_ = Verdict::kMismatch;
  complaint_ = std::move(complaint);
  return false;
}

Verdict AnswerChecker::Check(uint64_t call, google::protobuf::io::ZeroCopyInputStream* answer, std::string* complaint) {
  const bool is_lookup = workload_.options().rpc == Rpc::kLookup;
  if (reference_ != nullptr || workload_.options().rpc == Rpc::kNeighbours) workload_.IdsOf(call, &asked_);
  shape_.clear();
  ids_.clear();
  ends_.clear();
  scores_.clear();
  dtype_ = metric_ = 0;
  higher_is_closer_ = false;
  data_bytes_ = 0;
  stamp_seen_ = false;
  verdict_ = is_lookup && reference_ != nullptr ? Verdict::kVerified : Verdict::kUnchecked;
  complaint_.clear();
  const bool keep = reference_ != nullptr && !is_lookup && checked_++ % kKeepEvery == 0 && kept_.size() < kMaxKept;
  Stream in(answer);
  if (!Walk(in)) {
    if (complaint_.empty()) Malformed("the answer is cut short or no valid message");
  } else if (Judge() && keep) {
    kept_.push_back({.call = call, .ids = ids_, .ends = ends_, .scores = scores_});
  }
  if (!complaint_.empty()) *complaint = Format("call %" PRIu64 ": ", call) + complaint_;
  return verdict_;
}

bool AnswerChecker::Walk(Stream& in) {
  while (const uint32_t tag = in.ReadTag()) {
    if (!WalkField(tag, in)) return false;
  }
  return in.ConsumedEntireMessage();
}

bool AnswerChecker::WalkField(uint32_t tag, Stream& in) {
  const uint32_t field = tag >> 3;
  const uint32_t wire_type = tag & 7;
  if (field == kMetricField && wire_type == kVarint) return in.ReadVarint64(&metric_);
  if (field == kDirectionField && wire_type == kVarint) {
    uint64_t value;
    if (!in.ReadVarint64(&value)) return false;
    higher_is_closer_ = value != 0;
    return true;
  }
  const bool is_stamp = field == kStampField && reference_ != nullptr;
  if (wire_type != kBytes || (field != kPayloadField && !is_stamp)) return SkipValue(wire_type, in);
  int length;
  if (!in.ReadVarintSizeAsInt(&length)) return false;
  if (is_stamp) return WalkStamp(in, length);
  const Stream::Limit limit = in.PushLimit(length);
  const bool walked = workload_.options().rpc == Rpc::kNeighbours ? WalkNeighbours(in) : WalkTensor(in);
  if (!walked || !in.ConsumedEntireMessage()) return false;
  in.PopLimit(limit);
  return true;
}

bool AnswerChecker::WalkStamp(Stream& in, int length) {
  stamp_seen_ = true;
  v1::TableStamp stamp;
  if (!in.ReadString(&scratch_, length) || !stamp.ParseFromString(scratch_)) return false;
  const v1::TableStamp& want = reference_->stamp();
  if (stamp.version() == want.version() && stamp.fingerprint() == want.fingerprint() && stamp.name() == want.name()) {
    return true;
  }
  return Mismatch(Format("the stamp says version %" PRIu64 " with fingerprint %.40s, the reference is version %" PRIu64
                         " with %.40s",
                         stamp.version(), stamp.fingerprint().c_str(), want.version(), want.fingerprint().c_str()));
}

bool AnswerChecker::WalkTensor(Stream& in) {
  while (const uint32_t tag = in.ReadTag()) {
    const uint32_t wire_type = tag & 7;
    switch (tag >> 3) {
      case v1::Tensor::kDtypeFieldNumber:
        if (wire_type != kVarint || !in.ReadVarint64(&dtype_)) return false;
        break;
      case v1::Tensor::kShapeFieldNumber:
        if (!ReadInts(wire_type, in, &shape_)) return false;
        break;
      case v1::Tensor::kDataFieldNumber: {
        int length;
        if (wire_type != kBytes || !in.ReadVarintSizeAsInt(&length)) return false;
        data_bytes_ += length;
        const bool is_lookup = workload_.options().rpc == Rpc::kLookup;
        if (reference_ == nullptr ? !in.Skip(length) : is_lookup ? !CompareRows(in, length) : !ReadScores(in, length)) {
          return false;
        }
        break;
      }
      default:
        if (!SkipValue(wire_type, in)) return false;
    }
  }
  return true;
}

bool AnswerChecker::ReadScores(Stream& in, int length) {
  if (length % 4 != 0) return Malformed(Format("scores take %d bytes, no multiple of 4", length));
  return AppendFloats(in, length / 4, &scores_);
}

// Row by row against the reference, wherever the transport cut the bytes.
bool AnswerChecker::CompareRows(Stream& in, int length) {
  const int64_t row_bytes = reference_->row_bytes();
  const int64_t want_bytes = static_cast<int64_t>(asked_.size()) * row_bytes;
  if (length != want_bytes) {
    return Malformed(Format("%d bytes of rows, %" PRId64 " were due", length, want_bytes));
  }
  int64_t at = 0;
  while (at < length) {
    const void* chunk;
    int chunk_bytes;
    if (!in.GetDirectBufferPointer(&chunk, &chunk_bytes)) return false;
    const int64_t position = at / row_bytes;
    const int64_t offset = at % row_bytes;
    const int64_t compared = std::min<int64_t>(chunk_bytes, row_bytes - offset);
    const int64_t id = asked_[static_cast<size_t>(position)];
    if (std::memcmp(chunk, reference_->row(id) + offset, static_cast<size_t>(compared)) != 0) {
      return Mismatch(Format("row %" PRId64 " of the answer is not the row of id %" PRId64, position, id));
    }
    if (!in.Skip(static_cast<int>(compared))) return false;
    at += compared;
  }
  return true;
}

bool AnswerChecker::WalkNeighbours(Stream& in) {
  const size_t scores_before = scores_.size();
  while (const uint32_t tag = in.ReadTag()) {
    const uint32_t wire_type = tag & 7;
    switch (tag >> 3) {
      case v1::Neighbours::kIdsFieldNumber:
        if (!ReadInts(wire_type, in, &ids_)) return false;
        break;
      case v1::Neighbours::kScoresFieldNumber: {
        int length = 4;
        if (wire_type == kBytes && !in.ReadVarintSizeAsInt(&length)) return false;
        if ((wire_type != kBytes && wire_type != kFixed32) || length % 4 != 0) return false;
        if (!AppendFloats(in, length / 4, &scores_)) return false;
        break;
      }
      default:
        if (!SkipValue(wire_type, in)) return false;
    }
  }
  const size_t ids_before = ends_.empty() ? 0 : ends_.back();
  if (ids_.size() - ids_before != scores_.size() - scores_before) {
    return Malformed(Format("result %zu has %zu ids and %zu scores", ends_.size(), ids_.size() - ids_before,
                            scores_.size() - scores_before));
  }
  ends_.push_back(ids_.size());
  return true;
}

bool AnswerChecker::Judge() {
  if (reference_ != nullptr && !stamp_seen_) return Malformed("the answer has no stamp");
  if (workload_.options().rpc != Rpc::kLookup) {
    const v1::Metric want = workload_.metric();
    if (metric_ != static_cast<uint64_t>(want) || higher_is_closer_ != HigherIsCloser(want)) {
      return Malformed(Format("metric %" PRIu64 " with higher_is_closer %d, asked was %s", metric_,
                              static_cast<int>(higher_is_closer_), v1::Metric_Name(want).c_str()));
    }
  }
  return workload_.options().rpc == Rpc::kNeighbours ? JudgeNeighbours() : JudgeTensor();
}

bool AnswerChecker::JudgeTensor() {
  const int64_t batch = workload_.options().batch_size;
  const bool is_lookup = workload_.options().rpc == Rpc::kLookup;
  const int64_t dim = workload_.table().dim();
  const v1::Dtype want_dtype = is_lookup ? workload_.table().dtype() : v1::DTYPE_F32;
  if (dtype_ != static_cast<uint64_t>(want_dtype)) {
    return Malformed(Format("dtype %" PRIu64 ", %s was due", dtype_, v1::Dtype_Name(want_dtype).c_str()));
  }
  const bool right_shape = is_lookup ? shape_.size() == 2 && shape_[0] == batch && shape_[1] == dim
                                     : shape_.size() == 1 && shape_[0] == batch;
  if (!right_shape) {
    return Malformed(is_lookup ? Format("the shape is not [%" PRId64 ", %" PRId64 "]", batch, dim)
                               : Format("the shape is not [%" PRId64 "]", batch));
  }
  const int64_t want_bytes = batch * (is_lookup ? dim : 1) * static_cast<int64_t>(WireDtypeSize(want_dtype));
  if (data_bytes_ != want_bytes) {
    return Malformed(Format("%" PRId64 " bytes of data, %" PRId64 " were due", data_bytes_, want_bytes));
  }
  return true;
}

bool AnswerChecker::JudgeNeighbours() {
  if (ends_.size() != asked_.size()) {
    return Malformed(Format("%zu results for %zu queries", ends_.size(), asked_.size()));
  }
  const v1::TableInfo& table = workload_.table();
  const int64_t eligible = table.rows() - table.non_finite_rows() - 1;
  const auto due = static_cast<size_t>(std::min<int64_t>(workload_.options().k, eligible));
  const bool higher = HigherIsCloser(workload_.metric());
  for (size_t query = 0; query < ends_.size(); ++query) {
    const size_t begin = query == 0 ? 0 : ends_[query - 1];
    const size_t end = ends_[query];
    if (end - begin != due) {
      return Malformed(Format("result %zu holds %zu neighbours, %zu were due", query, end - begin, due));
    }
    for (size_t i = begin; i < end; ++i) {
      if (ids_[i] < 0 || ids_[i] >= table.rows() || ids_[i] == asked_[query]) {
        return Malformed(Format("result %zu names id %" PRId64 " for query %" PRId64 " of %" PRId64 " rows", query,
                                ids_[i], asked_[query], table.rows()));
      }
      if (i == begin) continue;
      const bool closer = higher ? scores_[i - 1] > scores_[i] : scores_[i - 1] < scores_[i];
      if (!closer && !(scores_[i - 1] == scores_[i] && ids_[i - 1] < ids_[i])) {
        return Malformed(Format("result %zu is out of order at %zu: id %" PRId64 " with %.9g, then id %" PRId64
                                " with %.9g",
                                query, i - begin, ids_[i - 1], scores_[i - 1], ids_[i], scores_[i]));
      }
    }
  }
  return true;
}

bool AnswerChecker::CompareApproximate(const Kept& kept, const std::vector<int64_t>& asked, KeptChecks* checks,
                                       std::string* complaint) const {
  const v1::Metric metric = workload_.metric();
  std::vector<int64_t> ids;
  std::vector<float> scores;
  for (size_t query = 0; query < asked.size(); ++query) {
    const size_t begin = query == 0 ? 0 : kept.ends[query - 1];
    for (size_t i = begin; i < kept.ends[query]; ++i) {
      const float want = reference_->Score(metric, asked[query], kept.ids[i]);
      if (std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(kept.scores[i])) continue;
      *complaint = Format("call %" PRIu64 ": the score of ids %" PRId64 " and %" PRId64 " is %.9g, recomputed %.9g",
                          kept.call, asked[query], kept.ids[i], kept.scores[i], want);
      return false;
    }
    reference_->Neighbours(metric, asked[query], workload_.options().k, &ids, &scores);
    std::sort(ids.begin(), ids.end());
    checks->closest_due += static_cast<int64_t>(ids.size());
    checks->closest_found +=
        std::count_if(kept.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                      kept.ids.begin() + static_cast<std::ptrdiff_t>(kept.ends[query]),
                      [&ids](int64_t id) { return std::binary_search(ids.begin(), ids.end(), id); });
  }
  return true;
}

bool AnswerChecker::Recompute(const Kept& kept, KeptChecks* checks, std::string* complaint) const {
  const v1::Metric metric = workload_.metric();
  std::vector<int64_t> asked;
  workload_.IdsOf(kept.call, &asked);
  if (workload_.options().rpc == Rpc::kSimilarity) {
    const size_t pairs = asked.size() / 2;
    for (size_t i = 0; i < pairs; ++i) {
      const float want = reference_->Score(metric, asked[i], asked[pairs + i]);
      if (std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(kept.scores[i])) continue;
      *complaint = Format("call %" PRIu64 ": the score of ids %" PRId64 " and %" PRId64 " is %.9g, recomputed %.9g",
                          kept.call, asked[i], asked[pairs + i], kept.scores[i], want);
      return false;
    }
    return true;
  }
  if (workload_.options().approximate) return CompareApproximate(kept, asked, checks, complaint);
  std::vector<int64_t> ids;
  std::vector<float> scores;
  for (size_t query = 0; query < asked.size(); ++query) {
    reference_->Neighbours(metric, asked[query], workload_.options().k, &ids, &scores);
    const size_t begin = query == 0 ? 0 : kept.ends[query - 1];
    for (size_t i = 0; i < ids.size(); ++i) {
      const float got = kept.scores[begin + i];
      if (kept.ids[begin + i] == ids[i] && std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(scores[i])) continue;
      *complaint = Format("call %" PRIu64 ": neighbour %zu of id %" PRId64 " is id %" PRId64
                          " with %.9g, recomputed id %" PRId64 " with %.9g",
                          kept.call, i, asked[query], kept.ids[begin + i], got, ids[i], scores[i]);
      return false;
    }
  }
  return true;
}

AnswerChecker::KeptChecks AnswerChecker::CheckKept(Clock& clock, int64_t until_ns) const {
  KeptChecks checks;
  for (const Kept& kept : kept_) {
    if (clock.NowNs() >= until_ns) {
      ++checks.not_reached;
      continue;
    }
    std::string complaint;
    if (Recompute(kept, &checks, &complaint)) {
      ++checks.verified;
    } else {
      ++checks.mismatches;
      if (checks.first_complaint.empty()) checks.first_complaint = complaint;
    }
  }
  return checks;
}

}  // namespace embedding::loadtest
