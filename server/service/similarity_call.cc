// Similarity: scores are computed where they leave the process, in the bytes of the answer.
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "server/search/similarity.h"
#include "server/service/handlers.h"
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
    if (absl::Status status = Parse(&request_, CheckCounts); !status.ok()) return status;
    if (absl::Status status = CheckRequest(); !status.ok()) return status;
    if (absl::Status status = Acquire(request_.table(), request_.metric()); !status.ok()) return status;
    if (absl::Status status = ResolveOperands(); !status.ok()) return status;
    return AllocateAnswer();
  }

  // Before the parser takes memory for it all.
  static absl::Status CheckCounts(const FieldCounts& counts, const RequestLimits& limits) {
    absl::Status status = CheckOperandCounts(counts, "left.", limits, "left.");
    return status.ok() ? CheckOperandCounts(counts, "right.", limits, "right.") : status;
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
    if (absl::Status status = CheckEnum("reduce", request_.reduce(), v1::Reduce_descriptor()); !status.ok()) {
      return status;
    }
    if (absl::Status status =
            CheckMissing(request_.missing(), {v1::MISSING_POLICY_ERROR, v1::MISSING_POLICY_ZERO}, "missing");
        !status.ok()) {
      return status;
    }
    all_pairs_ = request_.layout() == v1::LAYOUT_ALL_PAIRS;
    reduced_ = request_.reduce() == v1::REDUCE_MEAN;
    if (reduced_ && all_pairs_) {
      return InvalidField("layout", "layout=LAYOUT_ALL_PAIRS, reduce takes LAYOUT_PAIRWISE or none");
    }
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
    if (reduced_) {
      num_pairs_ = 1;
      if (n != 0 && m != 0) return absl::OkStatus();
      const char* const side = n == 0 ? "left" : "right";
      return InvalidField(side, absl::StrCat(side, " has no vectors, REDUCE_MEAN needs at least one"));
    }
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
    if (absl::Status status = left_.CheckWidth(table()); !status.ok()) return status;
    if (absl::Status status = right_.CheckWidth(table()); !status.ok()) return status;
    layout_.dtype = v1::DTYPE_F32;
    layout_.as_values = request_.encoding() == v1::ENCODING_FLOATS;
    layout_.shape = {reduced_ ? 1 : left_.count()};
    if (all_pairs_) layout_.shape.push_back(right_.count());
    if (absl::Status status = CheckAnswer(); !status.ok()) return status;
    absl::Status status = left_.Resolve(table(), request_.missing());
    if (status.ok()) status = right_.Resolve(table(), request_.missing());
    CountRows(status, left_.count() + right_.count(), left_.num_missing() + right_.num_missing());
    return status;
  }

  // Before the operands are resolved: an upper bound, should rows be missing.
  uint64_t AnswerBound(uint64_t pairs) const {
    TensorLayout layout = layout_;
    layout.payload_bytes = pairs * sizeof(float);
    const uint64_t bytes = SimilarityAnswerSize(snapshot(), layout, {metric(), {}, {}});
    if (request_.missing() != v1::MISSING_POLICY_ZERO) return bytes;
    const bool pairwise = !all_pairs_ && !reduced_;
    return bytes + MissingPositionsBound(pairwise ? static_cast<int64_t>(pairs) : left_.count()) +
           MissingPositionsBound(pairwise ? static_cast<int64_t>(pairs) : right_.count());
  }

  absl::Status CheckAnswer() {
    layout_.payload_bytes = num_pairs_ * sizeof(float);
    const uint64_t bytes = AnswerBound(num_pairs_);
    const int64_t limit = context().limits.max_response_bytes;
    if (bytes <= static_cast<uint64_t>(limit)) return absl::OkStatus();
    if (reduced_) {
      return AnswerTooLarge("left", bytes, limit, "ask for fewer vectors, or none that are missing");
    }
    const int64_t fitting = LargestThatFits(static_cast<int64_t>(num_pairs_), limit,
                                            [&](int64_t pairs) { return AnswerBound(static_cast<uint64_t>(pairs)); });
    return TooManyPairs(absl::StrCat("the answer needs ", bytes, " bytes"), limit, "--max-response-bytes", fitting);
  }

  absl::Status AllocateAnswer() {
    const SimilarityTail tail{metric(), left_.missing(), right_.missing()};
    const uint64_t bytes = SimilarityAnswerSize(snapshot(), layout_, tail);
    absl::StatusOr<Admission::Ticket> ticket = AdmitAnswer(bytes);
    if (!ticket.ok()) return ticket.status();
    const size_t offset = bytes - SimilarityTailSize(tail) - layout_.payload_bytes;
    answer_ = AnswerBuffer(bytes, *std::move(ticket), offset);
    uint8_t* const payload = WriteSimilarityAnswer(snapshot(), layout_, tail, answer_.data());
    scores_ = std::span<float>(reinterpret_cast<float*>(payload), num_pairs_);
    return absl::OkStatus();
  }

  void StartWork() override {
    if (num_pairs_ == 0) return EndWork(WorkOutcome::kComplete);
    if (!reduced_) return StartScores(left_.views(), right_.views());
    const int64_t dim = table().dim();
    means_.resize(static_cast<size_t>(2 * dim));
    ForEach(
        2, (left_.count() + right_.count()) * dim,
        [this, dim](int64_t side, StopPoll& stop) {
          WeightedMean mean(dim);
          (side == 0 ? left_ : right_).AddTo(mean, {}, stop);
          if (!stop.stopped()) mean.Write(means_.data() + side * dim);
        },
        [self = SharedFromThis<SimilarityCall>(), dim] {
          for (int64_t side = 0; side < 2; ++side) {
            self->mean_views_[side] = {self->means_.data() + side * dim, ElementType::kF64};
          }
          self->StartScores({&self->mean_views_[0], 1}, {&self->mean_views_[1], 1});
        });
  }

  void StartScores(std::span<const VectorView> left, std::span<const VectorView> right) {
    const auto start = all_pairs_ ? StartAllPairs : StartPairwise;
    start(metric(), left, right, table().dim(), scores_, *context().pool, StopWithCall(),
          [self = SharedFromThis<SimilarityCall>()](WorkOutcome outcome) { self->EndWork(outcome); });
  }

  absl::StatusOr<grpc::ByteBuffer> WriteAnswer() override { return answer_.TakeBytes(); }

  v1::SimilarityRequest& request_;
  bool all_pairs_ = false;
  bool reduced_ = false;
  Operand left_, right_;
  size_t num_pairs_ = 0;
  TensorLayout layout_;
  AnswerBuffer answer_;
  std::span<float> scores_;
  std::vector<double> means_;  // reduced: [2, dim], left and right
  VectorView mean_views_[2];
};

}  // namespace

void HandleSimilarity(const ServiceContext& context, CallPtr call) {
  std::make_shared<SimilarityCall>(context, std::move(call))->Begin();
}

}  // namespace embedding
