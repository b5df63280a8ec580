// What Similarity and NearestNeighbour share: a place in the queue, decoding, work on the pool, the answer from there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embedding/v1/embedding.pb.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/message.h"
#include "server/search/metric.h"
#include "server/search/scan_blocks.h"
#include "server/search/similarity.h"
#include "server/service/answer_buffer.h"
#include "server/service/call.h"
#include "server/service/embedding_service.h"
#include "server/service/request_body.h"
#include "server/service/snapshot.h"

namespace embedding {

// State of one call, alive as long as any work of it: all that the search borrows (message, table, views, answer) lies
// here or is held from here. Made by make_shared.
class SearchCall : public std::enable_shared_from_this<SearchCall> {
 public:
  virtual ~SearchCall() = default;

  // Takes over: refuses the call or ends it later from a worker. Decoding of a large request waits for a worker too, so
  // that it holds up no polling thread.
  void Begin();

 protected:
  SearchCall(const ServiceContext& context, Rpc rpc, CallPtr call)
      : context_(context), rpc_(rpc), call_(std::move(call)) {}

  // Decodes and checks everything, cheap checks first; an error refuses the call.
  virtual absl::Status Prepare() = 0;
  // Starts the search; its end calls EndWork. Or calls EndWork at once if there is nothing to compute.
  virtual void StartWork() = 0;
  // The whole answer, once the work is complete.
  virtual absl::StatusOr<grpc::ByteBuffer> WriteAnswer() = 0;

  const ServiceContext& context() const { return context_; }
  google::protobuf::Arena* arena() { return &arena_; }

  // Parses the call's body, as ParseRequest.
  absl::Status Parse(google::protobuf::Message* message, CountsCheck check) const;
  // Adds the answer's bytes to what is in flight.
  absl::StatusOr<Admission::Ticket> AdmitAnswer(uint64_t bytes) const;
  // The table and the metric of the request, which hold for the rest of the call. Errors as TableRegistry::Acquire.
  absl::Status Acquire(const v1::TableSpec& table, v1::Metric metric);
  const Snapshot& snapshot() const { return *snapshot_; }
  const EmbeddingTable& table() const { return *snapshot_->table; }
  Metric metric() const { return metric_; }
  // For embedding_rows_total, with what the rows were resolved to: counted if they were found or missing, not if
  // something else was wrong with them.
  void CountRows(const absl::Status& resolved, int64_t rows, int64_t missing) const {
    if (resolved.ok() || missing != 0) context_.metrics->OnRows(rpc_, rows - missing, missing);
  }

  // item(i, stop) for each i in [0, num_items), on any threads, then `then` once, unless the call is stopped, which
  // ends it. work: of all items, in multiply-adds; little work is done here and now.
  void ForEach(int64_t num_items, int64_t work, std::function<void(int64_t, StopPoll&)> item,
               std::function<void()> then);
  // To be given to the search: true once the call is stopped. Keeps this object alive.
  StopPredicate StopWithCall();
  // The same for a search that asks while it waits, too, and tells by AddQueueTime how long it did.
  StopPredicate StopWithCallUntimed();
  void AddQueueTime(std::chrono::nanoseconds waited) { first_poll_ns_.fetch_add(waited.count()); }
  // Ends the call.
  void EndWork(WorkOutcome outcome);

  template <typename Derived>
  std::shared_ptr<Derived> SharedFromThis() {
    return std::static_pointer_cast<Derived>(shared_from_this());
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  void Refuse(const absl::Status& status);
  // Before the call ends: its caller may have sent the next one before this object is gone.
  void GiveUpPlace();

  const ServiceContext context_;
  const Rpc rpc_;
  const CallPtr call_;
  SnapshotPtr snapshot_;
  Metric metric_ = Metric::kCosine;
  Admission::Ticket place_;
  google::protobuf::Arena arena_;
  Clock::time_point started_;              // when the work was handed to the pool
  std::atomic<int64_t> first_poll_ns_{0};  // when a worker took it up, after started_
};

}  // namespace embedding
