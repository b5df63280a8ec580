#include "server/service/stream_method.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "grpc/support/time.h"
#include "grpcpp/support/async_stream.h"

namespace embedding {
namespace {

// Answers that wait for more of them until they are this many bytes: then a write to the socket is well used.
constexpr int64_t kHeldBytes = 32 << 10;

thread_local HeldAnswers* this_thread_holds = nullptr;

}  // namespace

class StreamingMethod::StreamCall final : public Stream {
 public:
  explicit StreamCall(StreamingMethod* method) : method_(*method) {}

  // self: kept until the last operation is over.
  void Park(std::shared_ptr<StreamCall> self) {
    self_ = std::move(self);
    context_.AsyncNotifyWhenDone(&on_done_);
    method_.service_->RequestStream(method_.index_, &context_, &stream_, method_.queue_, &on_arrived_);
  }

  void Write(grpc::ByteBuffer message) override {
    MutexLock lock(&mutex_);
    if (over_.load(std::memory_order_relaxed) || finish_.has_value()) return;
    unsent_bytes_ += static_cast<int64_t>(message.Length());
    queue_.push_back(std::move(message));
    Hold();
    Advance();
  }

  void Finish(const grpc::Status& status) override {
    MutexLock lock(&mutex_);
    if (over_.load(std::memory_order_relaxed) || finish_.has_value()) return;
    finish_ = status;
    held_ = false;
    Advance();
  }

  // Ends the stream after the messages that were taken.
  void Drain(const grpc::Status& status) {
    MutexLock lock(&mutex_);
    if (over_.load(std::memory_order_relaxed) || drain_.has_value()) return;
    drain_ = status;
    Advance();
  }

  void Pause() override {
    MutexLock lock(&mutex_);
    paused_ = true;
  }

  void Resume() override {
    MutexLock lock(&mutex_);
    paused_ = false;
    Advance();
  }

  bool stopped() const override {
    return over_.load(std::memory_order_relaxed) || std::chrono::system_clock::now() >= deadline_;
  }

  absl::Status StoppedStatus() const override {
    if (std::chrono::system_clock::now() >= deadline_)
      return absl::DeadlineExceededError("the stream's deadline is over");
    return absl::CancelledError("the caller cancelled the stream");
  }

  // Sends what waits for company.
  void Release() {
    MutexLock lock(&mutex_);
    held_ = false;
    Advance();
  }

 private:
  void OnArrived(bool ok) {
    if (!ok) {  // the server is shutting down; the notice of the end does not come for a call that never began
      LiveCount* live = method_.live_;
      self_.reset();
      live->Remove();
      return;
    }
    arrival_ = std::chrono::steady_clock::now();
    deadline_ = context_.deadline();
    const bool early = method_.method_.rpc && method_.epoch_->Enter();
    if (method_.method_.rpc) method_.metrics_->OnStarted(*method_.method_.rpc);
    method_.Park();
    {
      MutexLock lock(&mutex_);
      early_ = early;
      operations_ = 2;  // the notice of the end, and this function
    }
    handler_ = method_.method_.open(self_);
    if (const grpc::Status status = method_.Enter(self_); !status.ok()) Drain(status);
    bool last;
    {
      MutexLock lock(&mutex_);
      reading_ = true;
      last = OperationOver();
    }
    if (last) End();
  }

  void OnRead(bool ok) {
    bool take;
    {
      // What arrives after the end has been sent cannot be answered any more.
      MutexLock lock(&mutex_);
      take = taking_ = !finish_pending_ && !over_.load(std::memory_order_relaxed);
    }
    if (!take) {
      message_.Clear();
    } else if (ok) {
      handler_->OnMessage(message_);
      message_.Clear();
    } else {
      handler_->OnHalfClose();
    }
    bool last;
    {
      MutexLock lock(&mutex_);
      taking_ = false;
      read_pending_ = false;
      reading_ = ok;
      last = OperationOver();
    }
    if (last) End();
  }

  void OnWritten(bool ok) {
    bool last;
    {
      MutexLock lock(&mutex_);
      write_pending_ = false;
      unsent_bytes_ -= std::exchange(written_bytes_, 0);
      if (!ok) over_.store(true, std::memory_order_relaxed);  // the caller has gone
      last = OperationOver();
    }
    if (last) End();
  }

  void OnFinished(bool) {
    bool last;
    {
      MutexLock lock(&mutex_);
      LeaveEpoch();
      last = OperationOver();
    }
    if (last) End();
  }

  void OnDone(bool) {
    bool last;
    {
      MutexLock lock(&mutex_);
      over_.store(true, std::memory_order_relaxed);
      last = OperationOver();
    }
    if (last) End();
  }

  // True once nothing of the library is pending and the notice of the end has come.
  bool OperationOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Advance();
    return --operations_ == 0;
  }

  void End() {
    handler_.reset();
    {
      MutexLock lock(&mutex_);
      CountEnd(static_cast<int>(StoppedStatus().code()));
      LeaveEpoch();
    }
    LiveCount* live = method_.live_;
    method_.Leave(self_);
    self_.reset();  // destroys this, unless the handler's service still holds it
    live->Remove();
  }

  // Once a stream, before its end leaves, so that a caller who has it finds it counted.
  void CountEnd(int code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!method_.method_.rpc || std::exchange(counted_, true)) return;
    method_.metrics_->OnHandled(*method_.method_.rpc, code, std::chrono::steady_clock::now() - arrival_);
  }

  void LeaveEpoch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(early_, false)) method_.epoch_->Leave();
  }

  // Lets the first answer of a burst wait on a polling thread until that thread has nothing else to do, which is at
  // once unless more messages have come. A write to the socket costs more than a small lookup.
  void Hold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (unsent_bytes_ >= kHeldBytes) held_ = false;
    if (held_ || write_pending_ || queue_.size() != 1 || unsent_bytes_ >= kHeldBytes) return;
    if (method_.method_.read_ahead_bytes == 0 || this_thread_holds == nullptr || paused_) return;
    held_ = true;
    this_thread_holds->streams_.push_back(self_);
  }

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (method_.method_.read_ahead_bytes == 0) return queue_.empty() && !write_pending_;
    return unsent_bytes_ < method_.method_.read_ahead_bytes;
  }

  // Starts what may be started: one write at a time, the end after the last, a read only when there is room for what it
  // may lead to, so that a caller who does not read its answers cannot pile them up here.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (over_.load(std::memory_order_relaxed) || finish_pending_) return;
    if (!write_pending_ && !held_ && !queue_.empty()) {
      write_pending_ = true;
      ++operations_;
      written_bytes_ = static_cast<int64_t>(queue_.front().Length());
      // Behind the hint the library keeps the bytes back for those to come. Not so the first: it carries the stream's
      // headers, whose write is waited for, so that nothing would come.
      grpc::WriteOptions options;
      if (std::exchange(begun_, true) && queue_.size() > 1) options.set_buffer_hint();
      stream_.Write(queue_.front(), options, &on_written_);
      queue_.pop_front();
    }
    if (!write_pending_ && queue_.empty()) {
      if (!finish_ && drain_ && !taking_ && !paused_) finish_ = drain_;
      if (finish_) {
        finish_pending_ = true;
        ++operations_;
        CountEnd(finish_->error_code());
        stream_.Finish(*finish_, &on_finished_);
        return;
      }
    }
    if (reading_ && !read_pending_ && !paused_ && !finish_ && !drain_ && HasRoom()) {
      read_pending_ = true;
      ++operations_;
      stream_.Read(&message_, &on_read_);
    }
  }

  StreamingMethod& method_;
  CompletionOf<StreamCall> on_arrived_{this, &StreamCall::OnArrived};
  CompletionOf<StreamCall> on_read_{this, &StreamCall::OnRead};
  CompletionOf<StreamCall> on_written_{this, &StreamCall::OnWritten};
  CompletionOf<StreamCall> on_finished_{this, &StreamCall::OnFinished};
  CompletionOf<StreamCall> on_done_{this, &StreamCall::OnDone};
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context_};
  grpc::ByteBuffer message_;  // of the pending read
  std::shared_ptr<StreamCall> self_;
  std::unique_ptr<StreamHandler> handler_;  // used by one completion at a time: there is one read at a time
  std::chrono::steady_clock::time_point arrival_;
  std::chrono::system_clock::time_point deadline_ = std::chrono::system_clock::time_point::max();
  std::atomic<bool> over_{false};  // the caller has gone, or the end has been sent; changes under mutex_

  Mutex mutex_;
  int operations_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // the caller may send more
  bool read_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool taking_ ABSL_GUARDED_BY(mutex_) = false;  // the handler is at a message
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;   // answers wait for the polling thread to run idle
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;  // the first write has been started
  bool counted_ ABSL_GUARDED_BY(mutex_) = false;
  bool early_ ABSL_GUARDED_BY(mutex_) = false;         // came before the drain
  int64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;   // in queue_ and in the pending write
  int64_t written_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // by the pending write
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> finish_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> drain_ ABSL_GUARDED_BY(mutex_);  // becomes finish_ when nothing is taken
};

HeldAnswers::HeldAnswers() { this_thread_holds = this; }

HeldAnswers::~HeldAnswers() { this_thread_holds = nullptr; }

void HeldAnswers::Flush() {
  // Releasing may hold others.
  std::vector<StreamPtr> streams;
  streams.swap(streams_);
  for (const StreamPtr& stream : streams) static_cast<StreamingMethod::StreamCall&>(*stream).Release();
}

StreamingMethod::StreamingMethod(StreamMethod method, RawService* service, int index,
                                 grpc::ServerCompletionQueue* queue, Metrics* metrics, LiveCount* live,
                                 DrainEpoch* epoch)
    : method_(std::move(method)),
      service_(service),
      index_(index),
      queue_(queue),
      metrics_(metrics),
      live_(live),
      epoch_(epoch) {}

StreamingMethod::~StreamingMethod() = default;

void StreamingMethod::Park() {
  auto call = std::make_shared<StreamCall>(this);
  live_->Add();
  call->Park(call);
}

void StreamingMethod::EndAll(const grpc::Status& status) {
  std::vector<std::shared_ptr<StreamCall>> open;
  {
    MutexLock lock(&mutex_);
    end_ = status;
    open.assign(open_.begin(), open_.end());
  }
  for (const auto& call : open) call->Drain(status);
}

grpc::Status StreamingMethod::Enter(std::shared_ptr<StreamCall> call) {
  MutexLock lock(&mutex_);
  open_.insert(std::move(call));
  return end_;
}

void StreamingMethod::Leave(const std::shared_ptr<StreamCall>& call) {
  MutexLock lock(&mutex_);
  open_.erase(call);
}

}  // namespace embedding
