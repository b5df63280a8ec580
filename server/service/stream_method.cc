#include "server/service/stream_method.h"

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "grpcpp/support/async_stream.h"

namespace embedding {

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
    if (over_ || finish_.has_value()) return;
    queue_.push_back(std::move(message));
    Advance();
  }

  void Finish(const grpc::Status& status) override {
    MutexLock lock(&mutex_);
    if (over_ || finish_.has_value()) return;
    finish_ = status;
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
    method_.Park();
    {
      MutexLock lock(&mutex_);
      operations_ = 2;  // the notice of the end, and this function
    }
    handler_ = method_.method_.open(self_);
    if (const grpc::Status status = method_.Enter(self_); !status.ok()) Finish(status);
    bool last;
    {
      MutexLock lock(&mutex_);
      reading_ = true;
      last = OperationOver();
    }
    if (last) End();
  }

  void OnRead(bool ok) {
    if (ok) {
      handler_->OnMessage(message_);
      message_.Clear();
    } else {
      handler_->OnHalfClose();
    }
    bool last;
    {
      MutexLock lock(&mutex_);
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
      if (!ok) over_ = true;  // the caller has gone
      last = OperationOver();
    }
    if (last) End();
  }

  void OnFinished(bool) {
    bool last;
    {
      MutexLock lock(&mutex_);
      last = OperationOver();
    }
    if (last) End();
  }

  void OnDone(bool) {
    bool last;
    {
      MutexLock lock(&mutex_);
      over_ = true;
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
    LiveCount* live = method_.live_;
    method_.Leave(self_);
    self_.reset();  // destroys this, unless the handler's service still holds it
    live->Remove();
  }

  // Starts what may be started: one write at a time, the end after the last, a read only when nothing waits to leave,
  // so that a caller who does not read its answers cannot pile them up here.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (over_ || write_pending_ || finish_pending_) return;
    if (!queue_.empty()) {
      write_pending_ = true;
      ++operations_;
      stream_.Write(queue_.front(), &on_written_);
      queue_.pop_front();
    } else if (finish_.has_value()) {
      finish_pending_ = true;
      ++operations_;
      stream_.Finish(*finish_, &on_finished_);
    } else if (reading_ && !read_pending_) {
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

  Mutex mutex_;
  int operations_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // the caller may send more
  bool read_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;  // the caller has gone, or the end has been sent
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> finish_ ABSL_GUARDED_BY(mutex_);
};

StreamingMethod::StreamingMethod(StreamMethod method, RawService* service, int index,
                                 grpc::ServerCompletionQueue* queue, LiveCount* live)
    : method_(std::move(method)), service_(service), index_(index), queue_(queue), live_(live) {}

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
  for (const auto& call : open) call->Finish(status);
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
