// A call without a transport: records how it ended, and stops when it is told to.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/exec/mutex.h"
#include "server/service/call.h"

namespace embedding::testing {

// bytes as a body of slices of slice_bytes each.
inline grpc::ByteBuffer BodyOf(const std::string& bytes, size_t slice_bytes = std::numeric_limits<size_t>::max()) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min(slice_bytes, bytes.size() - at);
    slices.emplace_back(bytes.data() + at, size);
    at += size;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

inline std::string BytesOf(const grpc::ByteBuffer& body) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!body.Dump(&slices).ok()) std::abort();
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

class FakeCall final : public Call {
 public:
  explicit FakeCall(const grpc::ByteBuffer& body) : request_(body) {}

  // The call is stopped from the poll after this many on.
  void StopAfterPolls(int64_t polls) { polls_left_ = polls; }
  // Runs when the call ends, before status() tells of it. To be set before the call is handled.
  void OnEnd(std::function<void()> hook) { on_end_ = std::move(hook); }
  // How often it was asked whether it is stopped.
  int64_t polls() const { return polls_; }

  const grpc::ByteBuffer& request() const override { return request_; }
  std::chrono::steady_clock::time_point deadline() const override {
    return std::chrono::steady_clock::time_point::max();
  }
  bool stopped() const override {
    ++polls_;
    return polls_left_.fetch_sub(1) <= 0;
  }
  void Reply(grpc::ByteBuffer body) override { End(absl::OkStatus(), body); }
  void Fail(const absl::Status& status) override {
    if (status.ok()) std::abort();
    End(status, grpc::ByteBuffer());
  }
  absl::Status StoppedStatus() const override { return absl::DeadlineExceededError("the fake deadline is over"); }

  // Waits until the call has ended.
  absl::Status status() const {
    MutexLock lock(&mutex_);
    while (!status_) ended_.Wait(&mutex_);
    return *status_;
  }
  bool ended() const {
    MutexLock lock(&mutex_);
    return status_.has_value();
  }
  // The answer, once; it is the last thing that holds the answer's memory.
  grpc::ByteBuffer TakeReply() {
    static_cast<void>(status());
    grpc::ByteBuffer reply;
    MutexLock lock(&mutex_);
    reply.Swap(&reply_);
    return reply;
  }

 private:
  void End(const absl::Status& status, grpc::ByteBuffer reply) {
    if (on_end_) on_end_();
    MutexLock lock(&mutex_);
    if (status_) std::abort();  // a call ends once
    status_ = status;
    reply_.Swap(&reply);
    ended_.SignalAll();
  }

  const grpc::ByteBuffer request_;
  std::function<void()> on_end_;
  mutable std::atomic<int64_t> polls_{0};
  mutable std::atomic<int64_t> polls_left_{std::numeric_limits<int64_t>::max()};
  mutable Mutex mutex_;
  mutable CondVar ended_;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer reply_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embedding::testing
