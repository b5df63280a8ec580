// What the transport's calls share: tags that know what to do, a count of what is alive, a service of raw methods.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/exec/mutex.h"

namespace embedding {

// The tag of an operation: a completion queue gives it back when the operation is over.
class Completion {
 public:
  virtual void Run(bool ok) = 0;

 protected:
  ~Completion() = default;
};

// Calls one method of its owner.
template <typename Owner>
class CompletionOf final : public Completion {
 public:
  CompletionOf(Owner* owner, void (Owner::*method)(bool)) : owner_(owner), method_(method) {}
  void Run(bool ok) override { (owner_->*method_)(ok); }

 private:
  Owner* const owner_;
  void (Owner::*const method_)(bool);
};

// Counts the calls that are parked or running. A call is counted from before its first operation until the last one has
// been worked off, and parks its successor in between: so once the count is zero after the server's shutdown, nothing
// can touch the queues any more and they may be shut down.
class LiveCount {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
  }
  void Remove() {
    MutexLock lock(&mutex_);
    if (--count_ == 0) zero_.SignalAll();
  }
  void AwaitZero() {
    MutexLock lock(&mutex_);
    while (count_ > 0) zero_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar zero_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Tells the calls that came before a drain from those that came after it began.
class DrainEpoch {
 public:
  // True if the caller came before, and is to Leave.
  bool Enter() {
    early_calls_.fetch_add(1);
    // Counted first, asked then: so either Begin's caller sees this call, or this call sees the drain.
    if (!draining_.load()) return true;
    early_calls_.fetch_sub(1);
    return false;
  }
  void Leave() { early_calls_.fetch_sub(1); }
  void Begin() { draining_.store(true); }
  // After Begin, zero is reached and stays, but for calls that are just finding out that they came late.
  int64_t early_calls() const { return early_calls_.load(); }

 private:
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> early_calls_{0};
};

// A service whose methods hand over bytes, as the generated WithRawMethod_ classes do, but made from a list of names.
class RawService final : public grpc::Service {
 public:
  // path: such as "/embedding.v1.EmbeddingService/Lookup". Gives the index of the method. Before the server is built.
  int AddUnary(const std::string& path) { return Add(path, grpc::internal::RpcMethod::NORMAL_RPC); }
  int AddStream(const std::string& path) { return Add(path, grpc::internal::RpcMethod::BIDI_STREAMING); }

  void RequestUnary(int index, grpc::ServerContext* context, grpc::ByteBuffer* request,
                    grpc::internal::ServerAsyncStreamingInterface* stream, grpc::ServerCompletionQueue* queue,
                    Completion* tag) {
    RequestAsyncUnary(index, context, request, stream, queue, queue, tag);
  }
  void RequestStream(int index, grpc::ServerContext* context, grpc::internal::ServerAsyncStreamingInterface* stream,
                     grpc::ServerCompletionQueue* queue, Completion* tag) {
    RequestAsyncBidiStreaming(index, context, stream, queue, queue, tag);
  }

 private:
  int Add(const std::string& path, grpc::internal::RpcMethod::RpcType type) {
    // The library keeps the pointer.
    paths_.push_back(std::make_unique<std::string>(path));
    AddMethod(new grpc::internal::RpcServiceMethod(paths_.back()->c_str(), type, nullptr));
    const int index = static_cast<int>(paths_.size()) - 1;
    MarkMethodRaw(index);
    return index;
  }

  std::vector<std::unique_ptr<std::string>> paths_;
};

}  // namespace embedding
