// Lookup: ids from the wire, rows gathered once into the slice that goes out.
#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/status_codec.h"
#include "server/service/answer_buffer.h"
#include "server/service/handlers.h"
#include "server/service/lookup_request.h"
#include "server/service/reply_writer.h"
#include "server/service/request_body.h"
#include "server/service/request_errors.h"
#include "server/table/gather.h"

namespace embedding {
namespace {

using Clock = std::chrono::steady_clock;

// Between two looks at the call: well below the 10 ms within which stopped work ends.
constexpr size_t kGatherBytesPerPoll = size_t{4} << 20;

// One Lookup, from the body to the answer's bytes, on the calling thread.
class LookupCall {
 public:
  LookupCall(const ServiceContext& context, const Call& call) : context_(context), call_(call), body_(call.request()) {}

  absl::StatusOr<grpc::ByteBuffer> Run() {
    const Clock::time_point begin = Clock::now();
    absl::Status status = Decode();
    const Clock::time_point decoded = Clock::now();
    context_.metrics->OnStage(Rpc::kLookup, Stage::kDecode, decoded - begin);
    if (!status.ok()) return status;
    status = Resolve();
    const Clock::time_point resolved = Clock::now();
    context_.metrics->OnStage(Rpc::kLookup, Stage::kCompute, resolved - decoded);
    if (!status.ok()) return status;
    absl::StatusOr<grpc::ByteBuffer> answer = WriteAnswer();
    context_.metrics->OnStage(Rpc::kLookup, Stage::kEncode, Clock::now() - resolved);
    return answer;
  }

 private:
  // What is wrong whatever the table.
  absl::Status Decode() {
    if (!body_.readable()) return MalformedRequest("embedding.v1.LookupRequest", "unreadable body");
    if (absl::Status status = ParseLookupRequest(body_.bytes(), &request_, context_.limits.max_ids); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckEnum("encoding", request_.encoding, v1::Encoding_descriptor()); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckOutputDtype(); !status.ok()) return status;
    return CheckRows(request_.rows, context_.limits, ShapeRule::kAnyRank, "");
  }

  absl::Status CheckOutputDtype() const {
    const int32_t given = request_.output_dtype;
    const bool as_values = request_.encoding == v1::ENCODING_FLOATS;
    const bool allowed = given == v1::DTYPE_UNSPECIFIED || given == v1::DTYPE_F32 ||
                         (!as_values && (given == v1::DTYPE_F16 || given == v1::DTYPE_BF16));
    if (allowed) return absl::OkStatus();
    return InvalidField(
        "output_dtype",
        absl::StrCat("output_dtype=", DtypeText(given), ", allowed", as_values ? " with ENCODING_FLOATS" : "",
                     ": DTYPE_UNSPECIFIED (0), DTYPE_F32 (1)", as_values ? "" : ", DTYPE_F16 (2), DTYPE_BF16 (3)"));
  }

  Dtype OutputDtype(const EmbeddingTable& table) const {
    switch (request_.output_dtype) {
      case v1::DTYPE_F32:
        return Dtype::kF32;
      case v1::DTYPE_F16:
        return Dtype::kF16;
      case v1::DTYPE_BF16:
        return Dtype::kBF16;
      default:
        return request_.encoding == v1::ENCODING_FLOATS ? Dtype::kF32 : table.dtype();
    }
  }

  absl::Status Resolve() {
    absl::StatusOr<SnapshotPtr> snapshot = context_.registry->Acquire(request_.table_name, request_.table_version);
    if (!snapshot.ok()) return snapshot.status();
    snapshot_ = *std::move(snapshot);
    const EmbeddingTable& table = *snapshot_->table;
    layout_.as_values = request_.encoding == v1::ENCODING_FLOATS;
    output_ = OutputDtype(table);
    layout_.dtype = WireDtype(output_);
    row_bytes_ = static_cast<size_t>(table.dim()) * DtypeSize(output_);
    layout_.shape = request_.rows.shape;
    layout_.shape.push_back(table.dim());
    if (absl::Status status = CheckAnswer(); !status.ok()) return status;
    int64_t missing = 0;
    const absl::Status status = ResolveRows(request_.rows, table, "", v1::MISSING_POLICY_ERROR, &missing);
    if (status.ok() || missing != 0) {
      context_.metrics->OnRows(Rpc::kLookup, request_.rows.count - missing, missing);
    }
    return status;
  }

  absl::Status CheckAnswer() {
    const int64_t count = request_.rows.count;
    layout_.payload_bytes = static_cast<uint64_t>(count) * row_bytes_;
    answer_bytes_ = StampedTensorSize(*snapshot_, layout_);
    const int64_t limit = context_.limits.max_response_bytes;
    if (answer_bytes_ <= static_cast<uint64_t>(limit)) return absl::OkStatus();
    const int64_t fitting = LargestThatFits(count, limit, [&](int64_t n) {
      TensorLayout smaller = layout_;
      smaller.shape = {n, snapshot_->table->dim()};
      smaller.payload_bytes = static_cast<uint64_t>(n) * row_bytes_;
      return StampedTensorSize(*snapshot_, smaller);
    });
    return AnswerTooLarge("rows", answer_bytes_, limit, absl::StrCat("the largest batch that fits is ", fitting));
  }

  absl::StatusOr<grpc::ByteBuffer> WriteAnswer() {
    absl::StatusOr<Admission::Ticket> ticket =
        context_.admission->Admit(static_cast<int64_t>(answer_bytes_), /*search=*/false);
    if (!ticket.ok()) return ticket.status();
    AnswerBuffer answer(answer_bytes_, *std::move(ticket));
    uint8_t* to = WriteStampedTensor(*snapshot_, layout_, answer.data());
    const size_t rows_per_poll = std::max<size_t>(kGatherBytesPerPoll / row_bytes_, 1);
    const auto count = static_cast<size_t>(request_.rows.count);
    for (size_t first = 0; first < count; first += rows_per_poll) {
      if (first != 0 && call_.stopped()) return call_.StoppedStatus();
      const size_t rows = std::min(rows_per_poll, count - first);
      const std::span<const int64_t> ids(request_.rows.ids.data() + first, rows);
      if (const auto overflow = GatherRows(*snapshot_->table, ids, output_, reinterpret_cast<std::byte*>(to))) {
        return ValueOutOfRange(*overflow, first);
      }
      to += rows * row_bytes_;
    }
    return answer.TakeBytes();
  }

  // first: where the ids gathered begin in the request.
  absl::Status ValueOutOfRange(const ValueOverflow& overflow, size_t first) const {
    const size_t position = first + overflow.position;
    const auto index = static_cast<int64_t>(position);
    const int64_t id = request_.rows.ids[position];
    const bool by_key = request_.rows.kind == RowSelection::Kind::kKeys;
    const std::string value = absl::StrFormat("%.9g", overflow.value);
    const std::string message =
        absl::StrCat(ElementName(request_.rows, "", index), by_key ? " is row " : " is ", id, ", its column ",
                     overflow.column, " is ", value, ", ", v1::Dtype_Name(layout_.dtype), " ends at +-",
                     absl::StrFormat("%.9g", LargestFinite(output_)));
    return ErrorWithDetails(absl::StatusCode::kOutOfRange, message,
                            {"VALUE_OUT_OF_RANGE",
                             {{"position", absl::StrCat(index)},
                              {"id", absl::StrCat(id)},
                              {"column", absl::StrCat(overflow.column)},
                              {"value", value}},
                             {{"output_dtype", message}}});
  }

  const ServiceContext& context_;
  const Call& call_;
  const RequestBody body_;
  LookupRequest request_;
  SnapshotPtr snapshot_;
  Dtype output_ = Dtype::kF32;
  TensorLayout layout_;
  size_t row_bytes_ = 0;  // of the answer
  uint64_t answer_bytes_ = 0;
};

}  // namespace

void HandleLookup(const ServiceContext& context, CallPtr call) {
  absl::StatusOr<grpc::ByteBuffer> answer = LookupCall(context, *call).Run();
  if (answer.ok()) {
    call->Reply(*std::move(answer));
  } else {
    call->Fail(answer.status());
  }
}

}  // namespace embedding
