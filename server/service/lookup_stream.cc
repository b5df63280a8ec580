// LookupStream: each message is a Lookup with an outcome of its own; the transport keeps the order and the flow.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "proto/status_codec.h"
#include "server/service/embedding_service.h"
#include "server/service/lookup_work.h"

namespace embedding {
namespace {

// What may wait for a caller to read before the next request is taken up: some hundreds of answers of usual size, so
// that a caller who sends ahead finds the socket busy; little beside one large answer.
constexpr int64_t kReadAheadBytes = 1 << 20;

grpc::ByteBuffer ErrorBody(const absl::Status& status) {
  v1::LookupStreamResponse response;
  response.mutable_error()->set_code(static_cast<int32_t>(status.code()));
  response.mutable_error()->set_message(std::string(status.message()));
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Writes the outcome of one request, or ends the stream where nothing can follow.
void Send(const ServiceContext& context, Stream& stream, absl::StatusOr<grpc::ByteBuffer> answer) {
  Metrics& metrics = *context.metrics;
  if (answer.ok()) {
    metrics.OnStreamItem(0);
    metrics.OnResponseBytes(Rpc::kLookupStream, static_cast<int64_t>(answer->Length()));
    stream.Write(*std::move(answer));
    return;
  }
  const absl::Status& status = answer.status();
  metrics.OnStreamItem(static_cast<int>(status.code()));
  // A message that does not parse leaves nothing to go on with.
  if (DetailsOf(status).reason == "MALFORMED") {
    stream.Finish(ToGrpcStatus(status));
    return;
  }
  stream.Write(ErrorBody(status));
}

class LookupStream final : public StreamHandler {
 public:
  LookupStream(const ServiceContext& context, StreamPtr stream) : context_(context), stream_(std::move(stream)) {}

  void OnMessage(const grpc::ByteBuffer& message) override {
    if (stream_->stopped()) return;  // the library ends the stream; nobody waits for this any more
    auto work = std::make_shared<LookupWork>(context_, Rpc::kLookupStream, message);
    if (absl::Status status = work->Prepare(); !status.ok()) {
      Send(context_, *stream_, std::move(status));
    } else if (work->runs_long()) {
      AnswerOnPool(std::move(work));
    } else {
      Send(context_, *stream_, work->Answer(*stream_));
    }
  }

  void OnHalfClose() override { stream_->Finish(grpc::Status::OK); }

 private:
  // The stream waits, this thread does not. As with a long Lookup, a place among the searches is needed.
  void AnswerOnPool(std::shared_ptr<LookupWork> work) {
    absl::StatusOr<Admission::Ticket> place = context_.admission->Admit(0, /*search=*/true);
    if (!place.ok()) {
      Send(context_, *stream_, place.status());
      return;
    }
    stream_->Pause();
    auto held = std::make_shared<Admission::Ticket>(*std::move(place));
    // Not by way of this: the handler is gone once the stream has ended.
    context_.pool->Submit(
        1,
        [context = context_, stream = stream_, work = std::move(work), held = std::move(held)](int) {
          absl::StatusOr<grpc::ByteBuffer> answer = work->Answer(*stream);
          *held = Admission::Ticket();
          Send(context, *stream, std::move(answer));
          stream->Resume();
        },
        [] {});
  }

  const ServiceContext context_;
  const StreamPtr stream_;
};

}  // namespace

std::vector<StreamMethod> EmbeddingServiceStreams(const ServiceContext& context) {
  const Rpc rpc = Rpc::kLookupStream;
  const auto open = [context](StreamPtr stream) { return std::make_unique<LookupStream>(context, std::move(stream)); };
  return {{absl::StrCat("/", RpcServiceName(rpc), "/", RpcMethodName(rpc)), open, rpc, kReadAheadBytes}};
}

}  // namespace embedding
