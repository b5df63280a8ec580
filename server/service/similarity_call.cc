// Similarity: scores are computed where they leave the process, in the bytes of the answer.
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/similarity.h"
#include "server/service/handlers.h"
#include "server/service/metric_field.h"
#include "server/service/operand.h"
#include "server/service/reply_writer.h"
#include "server/service/request_errors.h"
#include "server/service/search_call.h"

namespace embedding {
namespace {

class SimilarityCall final : public SearchCall {
 public:
  SimilarityCall(const ServiceContext& context, CallPtr call)
      : SearchCall(context, Rpc::kSimilarity, std::move(call)),
        request_(*google::protobuf::Arena::CreateMessage<v1::SimilarityRequest>(arena())) {}

 private:
  absl::Status Prepare() override {
    if (absl::Status status = Parse(&request_); !status.ok()) return status;
    if (absl::Status status = CheckRequest(); !status.ok()) return status;
    absl::StatusOr<SnapshotPtr> snapshot =
        context().registry->Acquire(request_.table().name(), request_.table().version());
    if (!snapshot.ok()) return snapshot.status();
    snapshot_ = *std::move(snapshot);
    metric_ = MetricOrDefault(request_.metric(), *snapshot_);
    if (absl::Status status = ResolveOperands(); !status.ok()) return status;
    return AllocateAnswer();
  }

  // What is wrong whatever the table.
  absl::Status CheckRequest() {
    if (absl::Status status = CheckEnum("layout", request_.layout(), v1::Layout_descriptor()); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckEnum("metric", request_.metric(), v1::Metric_descriptor()); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckEnum("encoding", request_.encoding(), v1::Encoding_descriptor()); !status.ok()) {
      return status;
    }
    all_pairs_ = request_.layout() == v1::LAYOUT_ALL_PAIRS;
    const RequestLimits& limits = context().limits;
    if (absl::Status status = left_.Check(request_.left(), request_.has_left(), limits, "left."); !status.ok()) {
      return status;
    }
    if (absl::Status status = right_.Check(request_.right(), request_.has_right(), limits, "right."); !status.ok()) {
      return status;
    }
    return CheckPairs();
  }

  absl::Status CheckPairs() {
    const int64_t n = left_.count(), m = right_.count();
    const int64_t max_pairs = context().limits.max_pairs;
    if (!all_pairs_ && n != m) {
      return InvalidField("right", absl::StrCat("left has ", n, " vectors, right has ", m,
                                                ": LAYOUT_PAIRWISE needs as many on both sides"));
    }
    const uint64_t pairs =
        all_pairs_ ? SaturatingMultiply(static_cast<uint64_t>(n), static_cast<uint64_t>(m)) : static_cast<uint64_t>(n);
    if (pairs > static_cast<uint64_t>(max_pairs)) {
      return TooManyPairs(absl::StrCat(pairs, " pairs"), max_pairs, "--max-pairs", max_pairs);
    }
    num_pairs_ = static_cast<size_t>(pairs);
    return absl::OkStatus();
  }

  // fitting_pairs: pairs that stay within the limit.
  absl::Status TooManyPairs(const std::string& what, int64_t limit, absl::string_view flag, int64_t fitting_pairs) {
    if (!all_pairs_) {
      return LimitExceeded("left", what, limit, flag,
                           absl::StrCat("the largest batch that fits is ", fitting_pairs, " pairs"));
    }
    const int64_t m = right_.count();
    return LimitExceeded("left", absl::StrCat(what, " (", left_.count(), " x ", m, ")"), limit, flag,
                         absl::StrCat("with ", m, " right the largest left that fits is ", fitting_pairs / m));
  }

  absl::Status ResolveOperands() {
    const EmbeddingTable& table = *snapshot_->table;
    if (absl::Status status = left_.CheckWidth(table); !status.ok()) return status;
    if (absl::Status status = right_.CheckWidth(table); !status.ok()) return status;
    layout_.dtype = v1::DTYPE_F32;
    layout_.as_values = request_.encoding() == v1::ENCODING_FLOATS;
    layout_.shape = {left_.count()};
    if (all_pairs_) layout_.shape.push_back(right_.count());
    if (absl::Status status = CheckAnswer(); !status.ok()) return status;
    absl::Status status = left_.Resolve(table);
    if (status.ok()) status = right_.Resolve(table);
    const int64_t missing = left_.missing() + right_.missing();
    if (status.ok() || missing != 0) CountRows(left_.count() + right_.count(), missing);
    return status;
  }

  uint64_t AnswerBytes(uint64_t pairs) const {
    TensorLayout layout = layout_;
    layout.payload_bytes = pairs * sizeof(float);
    return SimilarityAnswerSize(*snapshot_, layout, metric_);
  }

  absl::Status CheckAnswer() {
    layout_.payload_bytes = num_pairs_ * sizeof(float);
    answer_bytes_ = AnswerBytes(num_pairs_);
    const int64_t limit = context().limits.max_response_bytes;
    if (answer_bytes_ <= static_cast<uint64_t>(limit)) return absl::OkStatus();
    const int64_t fitting = LargestThatFits(static_cast<int64_t>(num_pairs_), limit,
                                            [&](int64_t pairs) { return AnswerBytes(static_cast<uint64_t>(pairs)); });
    return TooManyPairs(absl::StrCat("the answer needs ", answer_bytes_, " bytes"), limit, "--max-response-bytes",
                        fitting);
  }

  absl::Status AllocateAnswer() {
    absl::StatusOr<Admission::Ticket> ticket = AdmitAnswer(answer_bytes_);
    if (!ticket.ok()) return ticket.status();
    const size_t offset = answer_bytes_ - SimilarityTailSize(metric_) - layout_.payload_bytes;
    answer_ = AnswerBuffer(answer_bytes_, *std::move(ticket), offset);
    uint8_t* const payload = WriteSimilarityAnswer(*snapshot_, layout_, metric_, answer_.data());
    scores_ = std::span<float>(reinterpret_cast<float*>(payload), num_pairs_);
    return absl::OkStatus();
  }

  void StartWork() override {
    if (num_pairs_ == 0) {
      EndWork(WorkOutcome::kComplete);
      return;
    }
    const auto start = all_pairs_ ? StartAllPairs : StartPairwise;
    start(metric_, left_.views(), right_.views(), snapshot_->table->dim(), scores_, *context().pool, StopWithCall(),
          [self = SharedFromThis<SimilarityCall>()](WorkOutcome outcome) { self->EndWork(outcome); });
  }

  absl::StatusOr<grpc::ByteBuffer> WriteAnswer() override { return answer_.TakeBytes(); }

  v1::SimilarityRequest& request_;
  SnapshotPtr snapshot_;
  Metric metric_ = Metric::kCosine;
  bool all_pairs_ = false;
  Operand left_, right_;
  size_t num_pairs_ = 0;
  TensorLayout layout_;
  uint64_t answer_bytes_ = 0;
  AnswerBuffer answer_;
  std::span<float> scores_;
};

}  // namespace

void HandleSimilarity(const ServiceContext& context, CallPtr call) {
  std::make_shared<SimilarityCall>(context, std::move(call))->Begin();
}

}  // namespace embedding
