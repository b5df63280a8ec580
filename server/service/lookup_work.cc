#include "server/service/lookup_work.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/status_codec.h"
#include "server/service/answer_buffer.h"
#include "server/service/request_errors.h"
#include "server/service/row_references.h"
#include "server/service/wire_writer.h"

namespace embedding {
namespace {

using Clock = std::chrono::steady_clock;

// Between two looks at the caller: well below the 10 ms within which stopped work ends.
constexpr size_t kGatherBytesPerPoll = size_t{4} << 20;
// Of computed vectors: about 1 ms.
constexpr size_t kElementsPerPoll = size_t{1} << 20;
// Computed elements, and copied bytes, that a polling thread may take upon itself: about 2 ms.
constexpr uint64_t kInlineElements = uint64_t{2} << 20;
constexpr uint64_t kInlineBytes = uint64_t{8} << 20;

// Counts work until it is time to look at the caller again.
class PollClock {
 public:
  PollClock(const Waiting& caller, size_t per_poll) : caller_(caller), per_poll_(per_poll) {}
  // Before so much work: whether the caller has gone. The first piece is done without asking.
  bool StopsBefore(size_t work) {
    const bool due = done_ >= per_poll_;
    if (due) done_ = 0;
    done_ += work;
    return due && caller_.stopped();
  }

 private:
  const Waiting& caller_;
  const size_t per_poll_;
  size_t done_ = 0;
};

}  // namespace

absl::Status LookupWork::Prepare() {
  const Clock::time_point begin = Clock::now();
  absl::Status status = Decode();
  const Clock::time_point decoded = Clock::now();
  context_.metrics->OnStage(rpc_, Stage::kDecode, decoded - begin);
  if (!status.ok()) return status;
  status = Resolve();
  context_.metrics->OnStage(rpc_, Stage::kCompute, Clock::now() - decoded);
  return status;
}

// What is wrong whatever the table.
absl::Status LookupWork::Decode() {
  if (!body_.readable()) {
    return MalformedRequest(in_stream() ? "embedding.v1.LookupStreamRequest" : "embedding.v1.LookupRequest",
                            "unreadable body");
  }
  const auto parse = in_stream() ? ParseLookupStreamRequest : ParseLookupRequest;
  if (absl::Status status = parse(body_.bytes(), &request_, context_.limits.max_ids); !status.ok()) return status;
  if (absl::Status status = CheckEnum("encoding", request_.encoding, v1::Encoding_descriptor()); !status.ok()) {
    return status;
  }
  if (request_.dimensions < 0) {
    return InvalidField("dimensions", absl::StrCat("dimensions=", request_.dimensions, ", must be >= 0"));
  }
  if (absl::Status status = CheckRows(request_.rows, context_.limits, ShapeRule::kAnyRank, ""); !status.ok()) {
    return status;
  }
  return CheckPolicies();
}

absl::Status LookupWork::CheckPolicies() {
  const auto allowed = {v1::MISSING_POLICY_ERROR, v1::MISSING_POLICY_ZERO, v1::MISSING_POLICY_DEFAULT_ROW,
                        v1::MISSING_POLICY_SKIP};
  if (absl::Status status = CheckMissing(request_.missing, allowed, "missing"); !status.ok()) return status;
  policy_ = static_cast<v1::MissingPolicy>(request_.missing);
  if (request_.pooling) return CheckPooling(*request_.pooling, request_.rows, context_.limits, &bags_);
  if (policy_ == v1::MISSING_POLICY_SKIP && request_.rows.rank > 1) {
    return InvalidField("missing", absl::StrCat("missing=MISSING_POLICY_SKIP needs ids of one dimension, ",
                                                SelectionName(request_.rows, ""), ".shape has ", request_.rows.rank));
  }
  return absl::OkStatus();
}

absl::Status LookupWork::Resolve() {
  absl::StatusOr<SnapshotPtr> snapshot = context_.registry->Acquire(request_.table_name, request_.table_version);
  if (!snapshot.ok()) return snapshot.status();
  snapshot_ = *std::move(snapshot);
  const EmbeddingTable& table = *snapshot_->table;
  if (absl::Status status = ChooseColumns(table); !status.ok()) return status;
  if (absl::Status status = ChooseOutput(table); !status.ok()) return status;
  // Of what is skipped the count is not known yet; else the answer is measured before any work that grows with it.
  const bool skips = policy_ == v1::MISSING_POLICY_SKIP && !request_.pooling;
  if (!skips) {
    if (absl::Status status = CheckAnswer(); !status.ok()) return status;
  }
  int64_t missing = 0;
  absl::Status status = ResolveRows(request_.rows, table, "", policy_, &missing);
  if (status.ok() || missing != 0) context_.metrics->OnRows(rpc_, request_.rows.count - missing, missing);
  if (!status.ok()) return status;
  if (status = MarkRows(table); !status.ok()) return status;
  if (skips || missing != 0) {
    if (status = CheckAnswer(); !status.ok()) return status;
  }
  if (computed()) {
    const auto vectors = static_cast<uint64_t>(num_vectors() + request_.rows.count);
    runs_long_ = SaturatingMultiply(vectors, columns_) > kInlineElements;
  } else {
    refers_to_rows_ = RowsMayStay();
    runs_long_ = layout_.payload_bytes > kInlineBytes && !refers_to_rows_;
  }
  return absl::OkStatus();
}

absl::Status LookupWork::ChooseColumns(const EmbeddingTable& table) {
  if (request_.dimensions > table.dim()) {
    return InvalidField("dimensions", absl::StrCat("dimensions=", request_.dimensions, ", table \"", table.name(),
                                                   "\" is ", table.dim(), " wide"));
  }
  columns_ = static_cast<size_t>(request_.dimensions == 0 ? table.dim() : request_.dimensions);
  return absl::OkStatus();
}

absl::Status LookupWork::ChooseOutput(const EmbeddingTable& table) {
  const int32_t given = request_.output_dtype;
  const v1::Dtype own = WireDtype(table.dtype());
  layout_.as_values = request_.encoding == v1::ENCODING_FLOATS;
  // The table's own bits, whatever they mean, are only for rows as they are.
  const bool own_allowed = !layout_.as_values && !computed();
  if (given == v1::DTYPE_UNSPECIFIED) {
    output_ = own_allowed ? table.dtype() : Dtype::kF32;
  } else if (given == v1::DTYPE_F32) {
    output_ = Dtype::kF32;
  } else if (given == v1::DTYPE_F16 && !layout_.as_values) {
    output_ = Dtype::kF16;
  } else if (given == v1::DTYPE_BF16 && !layout_.as_values) {
    output_ = Dtype::kBF16;
  } else if (given == own && own_allowed) {
    output_ = table.dtype();
  } else {
    const bool own_is_another = own != v1::DTYPE_F32 && own != v1::DTYPE_F16 && own != v1::DTYPE_BF16;
    return InvalidField(
        "output_dtype",
        absl::StrCat(
            "output_dtype=", DtypeText(given), ", allowed", layout_.as_values ? " with ENCODING_FLOATS" : "",
            ": DTYPE_UNSPECIFIED (0), DTYPE_F32 (1)", layout_.as_values ? "" : ", DTYPE_F16 (2), DTYPE_BF16 (3)",
            own_allowed && own_is_another ? absl::StrCat(", ", v1::Dtype_Name(own), " (", static_cast<int>(own), ")")
                                          : ""));
  }
  layout_.dtype = WireDtype(output_);
  vector_bytes_ = columns_ * DtypeSize(output_);
  return absl::OkStatus();
}

// Puts in place of ids what is to be done with each, after missing rows have been marked.
absl::Status LookupWork::MarkRows(const EmbeddingTable& table) {
  RowSelection& rows = request_.rows;
  if (request_.pooling && request_.pooling->padding_id) {
    const int64_t padding = *request_.pooling->padding_id;
    if (padding >= table.num_rows()) {
      const std::string message = absl::StrCat("pooling.padding_id is ", padding, ", table \"", table.name(), "\" has ",
                                               table.num_rows(), " rows");
      return ErrorWithDetails(
          absl::StatusCode::kOutOfRange, message,
          {"ID_OUT_OF_RANGE",
           {{"table", table.name()}, {"id", absl::StrCat(padding)}, {"rows", absl::StrCat(table.num_rows())}},
           {{"pooling.padding_id", message}}});
    }
    // Before default rows are put in: padding is what the request names, not what stands for something else.
    std::replace(rows.ids.begin(), rows.ids.end(), padding, kLeftOut);
  }
  if (policy_ == v1::MISSING_POLICY_DEFAULT_ROW) {
    const std::optional<int64_t> default_row = table.default_row();
    if (!default_row) {
      return ErrorWithDetails(
          absl::StatusCode::kFailedPrecondition,
          absl::StrCat("table \"", table.name(), "\" has no default row; load it with default-row=ROW"),
          {"NO_DEFAULT_ROW", {{"table", table.name()}}, {}});
    }
    for (const int64_t position : rows.missing) rows.ids[static_cast<size_t>(position)] = *default_row;
  } else if (request_.pooling) {
    const int64_t stand_in = policy_ == v1::MISSING_POLICY_SKIP ? kLeftOut : kZeroRow;
    for (const int64_t position : rows.missing) rows.ids[static_cast<size_t>(position)] = stand_in;
  }
  return CheckFinite(table);
}

// A row that holds NaN or infinity can be copied, but nothing can be computed from it.
absl::Status LookupWork::CheckFinite(const EmbeddingTable& table) const {
  if (!computed() || table.non_finite_rows().empty()) return absl::OkStatus();
  for (size_t i = 0; i < request_.rows.ids.size(); ++i) {
    const int64_t id = request_.rows.ids[i];
    if (id < 0 || table.IsFinite(id)) continue;
    const auto position = static_cast<int64_t>(i);
    return ErrorWithDetails(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat(ElementName(request_.rows, "", position), " is row ", id, " of table \"", table.name(),
                     "\", which holds NaN or infinity and cannot be pooled or normalised"),
        {"NON_FINITE_ROW",
         {{"table", table.name()}, {"position", absl::StrCat(position)}, {"id", absl::StrCat(id)}},
         {}});
  }
  return absl::OkStatus();
}

int64_t LookupWork::num_vectors() const {
  if (request_.pooling) return bags_.count();
  const auto skipped = policy_ == v1::MISSING_POLICY_SKIP ? static_cast<int64_t>(request_.rows.missing.size()) : 0;
  return request_.rows.count - skipped;
}

uint64_t LookupWork::AnswerBytes(const TensorLayout& layout) const {
  const uint64_t answer = StampedTensorSize(*snapshot_, layout) + MissingPositionsSize(request_.rows.missing);
  return in_stream() ? BytesFieldSize(answer) : answer;
}

absl::Status LookupWork::CheckAnswer() {
  const bool keeps_shape = !request_.pooling && policy_ != v1::MISSING_POLICY_SKIP;
  layout_.shape = keeps_shape ? request_.rows.shape : std::vector<int64_t>{num_vectors()};
  layout_.shape.push_back(static_cast<int64_t>(columns_));
  layout_.payload_bytes = SaturatingMultiply(static_cast<uint64_t>(num_vectors()), vector_bytes_);
  answer_bytes_ = AnswerBytes(layout_);
  const int64_t limit = context_.limits.max_response_bytes;
  if (answer_bytes_ <= static_cast<uint64_t>(limit)) return absl::OkStatus();
  const int64_t fitting = LargestThatFits(num_vectors(), limit, [&](int64_t n) {
    TensorLayout smaller = layout_;
    smaller.shape = {n, static_cast<int64_t>(columns_)};
    smaller.payload_bytes = static_cast<uint64_t>(n) * vector_bytes_;
    return AnswerBytes(smaller);
  });
  return AnswerTooLarge("rows", answer_bytes_, limit,
                        absl::StrCat("the largest batch that fits is ", fitting, request_.pooling ? " bags" : ""));
}

absl::StatusOr<grpc::ByteBuffer> LookupWork::Answer(const Waiting& caller) {
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<Admission::Ticket> ticket =
      context_.admission->Admit(static_cast<int64_t>(answer_bytes_), /*search=*/false);
  if (!ticket.ok()) return ticket.status();
  absl::StatusOr<grpc::ByteBuffer> answer =
      refers_to_rows_ ? AnswerByReference(*std::move(ticket)) : AnswerByCopy(caller, *std::move(ticket));
  context_.metrics->OnStage(rpc_, Stage::kEncode, Clock::now() - begin);
  return answer;
}

uint8_t* LookupWork::WriteHead(uint8_t* to) const {
  if (in_stream()) {
    const uint64_t inside = StampedTensorSize(*snapshot_, layout_) + MissingPositionsSize(request_.rows.missing);
    to = PutBytesHeader(v1::LookupStreamResponse::kLookupFieldNumber, inside, to);
  }
  return WriteStampedTensor(*snapshot_, layout_, to);
}

bool LookupWork::RowsMayStay() const {
  const EmbeddingTable& table = *snapshot_->table;
  const size_t least = context_.referenced_piece_bytes;
  if (output_ != table.dtype() || layout_.payload_bytes < least) return false;
  // Rows of zeros lie nowhere; and without a row there is nothing to refer to.
  const Gaps holes = gaps();
  if (num_vectors() == 0 || (!holes.positions.empty() && !holes.left_out)) return false;
  return layout_.payload_bytes / CountPieces(table, request_.rows.ids, vector_bytes_) >= least;
}

grpc::ByteBuffer LookupWork::AnswerByReference(Admission::Ticket ticket) const {
  const uint64_t tail_bytes = MissingPositionsSize(request_.rows.missing);
  grpc::Slice head(static_cast<size_t>(answer_bytes_ - layout_.payload_bytes - tail_bytes));
  WriteHead(const_cast<uint8_t*>(head.begin()));
  grpc::Slice tail(static_cast<size_t>(tail_bytes));
  WriteMissingPositions(request_.rows.missing, const_cast<uint8_t*>(tail.begin()));
  return ReferToRows(snapshot_, std::move(ticket), std::move(head), request_.rows.ids, vector_bytes_, std::move(tail));
}

absl::StatusOr<grpc::ByteBuffer> LookupWork::AnswerByCopy(const Waiting& caller, Admission::Ticket ticket) {
  AnswerBuffer answer(answer_bytes_, std::move(ticket));
  uint8_t* const to = WriteHead(answer.data());
  if (computed()) floats_.resize(columns_);
  const auto write = request_.pooling     ? &LookupWork::WriteBags
                     : request_.normalize ? &LookupWork::WriteUnitVectors
                                          : &LookupWork::WriteRows;
  if (absl::Status status = (this->*write)(caller, reinterpret_cast<std::byte*>(to)); !status.ok()) return status;
  WriteMissingPositions(request_.rows.missing, to + layout_.payload_bytes);
  return answer.TakeBytes();
}

LookupWork::Gaps LookupWork::gaps() const {
  if (policy_ != v1::MISSING_POLICY_ZERO && policy_ != v1::MISSING_POLICY_SKIP) return {};
  return {request_.rows.missing, policy_ == v1::MISSING_POLICY_SKIP};
}

absl::Status LookupWork::WriteRows(const Waiting& caller, std::byte* to) {
  const std::span<const int64_t> ids(request_.rows.ids);
  const size_t rows_per_poll = std::max<size_t>(kGatherBytesPerPoll / vector_bytes_, 1);
  PollClock clock(caller, rows_per_poll);
  const Gaps holes = gaps();
  auto gap = holes.positions.begin();
  for (size_t at = 0; at < ids.size();) {
    // One gap, or the rows up to the next one.
    const size_t end = gap == holes.positions.end() ? ids.size() : static_cast<size_t>(*gap);
    const size_t rows = at == end ? 1 : std::min(end - at, rows_per_poll);
    if (clock.StopsBefore(rows)) return caller.StoppedStatus();
    if (at == end) {
      ++gap;
      if (!holes.left_out) {
        std::memset(to, 0, vector_bytes_);
        to += vector_bytes_;
      }
    } else {
      if (const auto overflow = GatherColumns(*snapshot_->table, ids.subspan(at, rows), columns_, output_, to)) {
        return RowOverflow(at + overflow->position, overflow->column, overflow->value);
      }
      to += rows * vector_bytes_;
    }
    at += rows;
  }
  return absl::OkStatus();
}

absl::Status LookupWork::WriteUnitVectors(const Waiting& caller, std::byte* to) {
  const std::span<const int64_t> ids(request_.rows.ids);
  PollClock clock(caller, kElementsPerPoll);
  const bool skips = policy_ == v1::MISSING_POLICY_SKIP;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (clock.StopsBefore(columns_)) return caller.StoppedStatus();
    if (ids[i] == kMissingId) {
      if (skips) continue;
      std::memset(to, 0, vector_bytes_);
    } else {
      GatherColumns(*snapshot_->table, ids.subspan(i, 1), columns_, Dtype::kF32,
                    reinterpret_cast<std::byte*>(floats_.data()));
      MakeUnitVector(columns_, floats_.data());
      WriteVector(to);  // always fits: no element is above 1
    }
    to += vector_bytes_;
  }
  return absl::OkStatus();
}

absl::Status LookupWork::WriteBags(const Waiting& caller, std::byte* to) {
  const std::span<const int64_t> ids(request_.rows.ids);
  const std::vector<float>& weights = request_.pooling->weights;
  const size_t rows_per_poll = std::max<size_t>(kElementsPerPoll / columns_, 1);
  PollClock clock(caller, kElementsPerPoll);
  RowPooler pooler(*snapshot_->table, bags_.mode, columns_);
  for (int64_t bag = 0; bag < bags_.count(); ++bag, to += vector_bytes_) {
    const auto begin = static_cast<size_t>(bags_.begins[static_cast<size_t>(bag)]);
    const auto end = static_cast<size_t>(bags_.begins[static_cast<size_t>(bag) + 1]);
    if (clock.StopsBefore(columns_)) return caller.StoppedStatus();
    for (size_t at = begin; at < end;) {
      const size_t rows = std::min(end - at, rows_per_poll);
      if (clock.StopsBefore(rows * columns_)) return caller.StoppedStatus();
      pooler.Add(ids.subspan(at, rows), weights.empty() ? nullptr : weights.data() + at);
      at += rows;
    }
    size_t column = pooler.End(floats_.data());
    if (column != columns_) {
      return BagOverflow(bag, static_cast<int64_t>(column), pooler.overflow(), Dtype::kF32);
    }
    if (request_.normalize) MakeUnitVector(columns_, floats_.data());
    column = WriteVector(to);
    if (column != columns_) return BagOverflow(bag, static_cast<int64_t>(column), floats_[column], output_);
  }
  return absl::OkStatus();
}

size_t LookupWork::WriteVector(std::byte* to) {
  if (output_ != Dtype::kF32) return NarrowFromF32(floats_.data(), columns_, ElementTypeOf(output_), to);
  std::memcpy(to, floats_.data(), vector_bytes_);
  return columns_;
}

absl::Status LookupWork::RowOverflow(size_t position, int64_t column, double value) const {
  const RowSelection& rows = request_.rows;
  const auto index = static_cast<int64_t>(position);
  const std::string id = absl::StrCat(rows.ids[position]);
  // What was asked for and what answers differ for keys, and for the default row.
  const bool named_otherwise =
      rows.kind == RowSelection::Kind::kKeys || std::binary_search(rows.missing.begin(), rows.missing.end(), index);
  const std::string what = absl::StrCat(ElementName(rows, "", index), named_otherwise ? " is row " : " is ", id);
  return ValueOutOfRange(what, column, value, output_, {{"position", absl::StrCat(index)}, {"id", id}});
}

absl::Status LookupWork::BagOverflow(int64_t bag, int64_t column, double value, Dtype dtype) const {
  return ValueOutOfRange(absl::StrCat("bag ", bag), column, value, dtype, {{"bag", absl::StrCat(bag)}});
}

absl::Status LookupWork::ValueOutOfRange(const std::string& what, int64_t column, double value, Dtype dtype,
                                         std::vector<std::pair<std::string, std::string>> metadata) const {
  const std::string text = absl::StrFormat("%.9g", value);
  const std::string message =
      absl::StrCat(what, ", its column ", column, " is ", text, ", ", v1::Dtype_Name(WireDtype(dtype)), " ends at +-",
                   absl::StrFormat("%.9g", LargestFinite(dtype)));
  metadata.emplace_back("column", absl::StrCat(column));
  metadata.emplace_back("value", text);
  return ErrorWithDetails(absl::StatusCode::kOutOfRange, message,
                          {"VALUE_OUT_OF_RANGE", std::move(metadata), {{"output_dtype", message}}});
}

}  // namespace embedding
