#include "server/service/unary_method.h"

#include <atomic>
#include <cassert>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/support/time.h"
#include "grpcpp/support/async_unary_call.h"
#include "proto/status_codec.h"

namespace embedding {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Objects kept for reuse; more than this many were in use at once only in a burst.
constexpr size_t kMaxUnused = 64;

// The library counts deadlines in milliseconds, so its timer may be early by one.
constexpr std::chrono::milliseconds kDeadlineGrain{1};

// Nullopt: the caller set none.
std::optional<std::chrono::nanoseconds> TimeLeft(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return std::nullopt;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  // A span beyond the range of nanoseconds is as good as none.
  if (left.tv_sec > int64_t{1} << 32) return std::nullopt;
  if (left.tv_sec < -(int64_t{1} << 32)) return std::chrono::nanoseconds(0);
  return std::chrono::seconds(left.tv_sec) + std::chrono::nanoseconds(left.tv_nsec);
}

}  // namespace

class UnaryMethod::UnaryCall final : public Call {
 public:
  explicit UnaryCall(UnaryMethod* method) : method_(*method) {}

  void Park() {
    context_.emplace();
    writer_.emplace(&*context_);
    answered_.store(false, std::memory_order_relaxed);
    cancelled_.store(false, std::memory_order_relaxed);
    if (method_.settings_.watch_cancellation) context_->AsyncNotifyWhenDone(&on_done_);
    method_.service_->RequestUnary(method_.index_, &*context_, &request_, &*writer_, method_.queue_, &on_arrived_);
  }

  // Gives back what the call holds of the library.
  void Clear() {
    request_.Clear();
    writer_.reset();
    context_.reset();
  }

  const grpc::ByteBuffer& request() const override { return request_; }
  SteadyTime deadline() const override { return deadline_; }

  bool stopped() const override {
    return cancelled_.load(std::memory_order_relaxed) || std::chrono::steady_clock::now() >= deadline_;
  }

  void Reply(grpc::ByteBuffer body) override {
    method_.metrics_->OnResponseBytes(method_.method_.rpc, static_cast<int64_t>(body.Length()));
    BeginAnswer(grpc::StatusCode::OK);
    writer_->Finish(body, grpc::Status::OK, &on_finished_);
  }

  void Fail(const absl::Status& status) override {
    const grpc::Status answer = ToGrpcStatus(status);
    if (status.code() == absl::StatusCode::kResourceExhausted) {
      const ErrorDetails details = DetailsOf(status);
      for (const auto& [key, value] : details.metadata) {
        if (key == kRetryPushbackKey) context_->AddTrailingMetadata(kRetryPushbackHeader, value);
      }
    }
    BeginAnswer(answer.error_code());
    writer_->FinishWithError(answer, &on_finished_);
  }

  absl::Status StoppedStatus() const override {
    if (std::chrono::steady_clock::now() + kDeadlineGrain < deadline_) {
      return absl::CancelledError("the caller cancelled the call");
    }
    if (!capped_) return absl::DeadlineExceededError("the call's deadline is over");
    return absl::DeadlineExceededError(absl::StrCat("the call took longer than this server allows, ",
                                                    method_.settings_.max_deadline.count(), " ms (--max-deadline)"));
  }

 private:
  void OnArrived(bool ok) {
    if (!ok) {  // the server is shutting down
      method_.Recycle(this);
      return;
    }
    arrival_ = std::chrono::steady_clock::now();
    const std::optional<std::chrono::nanoseconds> left = TimeLeft(context_->raw_deadline());
    capped_ = !left.has_value() || *left > method_.settings_.max_deadline;
    deadline_ = arrival_ + (capped_ ? std::chrono::nanoseconds(method_.settings_.max_deadline) : *left);
    // The handler, the end of the answer and, where asked for, the notice of the call's end.
    references_.store(method_.settings_.watch_cancellation ? 3 : 2, std::memory_order_relaxed);
    early_ = method_.epoch_->Enter();
    method_.metrics_->OnStarted(method_.method_.rpc);
    method_.Park();  // first of all, so that the next caller need not wait for this handler
    method_.method_.handle(CallPtr(this, [](UnaryCall* call) { call->OnHandlerGone(); }));
  }

  void OnHandlerGone() {
    // A handler that forgets its caller is a bug; the caller shall not wait for it.
    assert(answered_.load());
    if (!answered_.load()) Fail(absl::InternalError("the call was dropped"));
    Unreference();
  }

  void OnFinished(bool /*ok: false if the caller has gone*/) {
    if (early_) method_.epoch_->Leave();
    Unreference();
  }

  void OnDone(bool) {
    if (context_->IsCancelled()) cancelled_.store(true, std::memory_order_relaxed);
    Unreference();
  }

  // Counted before the answer leaves, so that a caller who has it finds it counted.
  void BeginAnswer(int code) {
    const bool twice = answered_.exchange(true);
    assert(!twice);
    static_cast<void>(twice);
    request_.Clear();
    method_.metrics_->OnHandled(method_.method_.rpc, code, std::chrono::steady_clock::now() - arrival_);
  }

  void Unreference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) method_.Recycle(this);
  }

  UnaryMethod& method_;
  CompletionOf<UnaryCall> on_arrived_{this, &UnaryCall::OnArrived};
  CompletionOf<UnaryCall> on_finished_{this, &UnaryCall::OnFinished};
  CompletionOf<UnaryCall> on_done_{this, &UnaryCall::OnDone};
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> writer_;
  grpc::ByteBuffer request_;
  SteadyTime arrival_;
  SteadyTime deadline_;
  bool capped_ = false;  // deadline_ is the server's maximum
  bool early_ = false;   // came before the drain
  std::atomic<int> references_{0};
  std::atomic<bool> answered_{false};
  std::atomic<bool> cancelled_{false};
};

UnaryMethod::UnaryMethod(const RpcMethod& method, Settings settings, RawService* service, int index,
                         grpc::ServerCompletionQueue* queue, Metrics* metrics, LiveCount* live, DrainEpoch* epoch)
    : method_(method),
      settings_(settings),
      service_(service),
      index_(index),
      queue_(queue),
      metrics_(metrics),
      live_(live),
      epoch_(epoch) {}

UnaryMethod::~UnaryMethod() = default;

void UnaryMethod::Park() {
  std::unique_ptr<UnaryCall> call;
  {
    MutexLock lock(&mutex_);
    if (!unused_.empty()) {
      call = std::move(unused_.back());
      unused_.pop_back();
    }
  }
  if (call == nullptr) call = std::make_unique<UnaryCall>(this);
  live_->Add();
  call.release()->Park();  // owned by its operations now, until Recycle
}

void UnaryMethod::Recycle(UnaryCall* call) {
  std::unique_ptr<UnaryCall> owned(call);
  owned->Clear();
  {
    MutexLock lock(&mutex_);
    if (unused_.size() < kMaxUnused) unused_.push_back(std::move(owned));
  }
  owned.reset();
  live_->Remove();
}

}  // namespace embedding
