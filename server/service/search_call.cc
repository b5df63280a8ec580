#include "server/service/search_call.h"

#include <algorithm>
#include <utility>

#include "server/service/metric_field.h"

namespace embedding {
namespace {

// Bodies above this are decoded and checked by a worker: a polling thread reads about 1 GB/s, and holds up other calls
// for less than 100 us that way.
constexpr size_t kMaxInlineBodyBytes = size_t{64} << 10;

}  // namespace

void SearchCall::Begin() {
  absl::StatusOr<Admission::Ticket> place = context_.admission->Admit(0, /*search=*/true);
  if (!place.ok()) {
    call_->Fail(place.status());
    return;
  }
  place_ = *std::move(place);
  if (call_->request().Length() <= kMaxInlineBodyBytes) {
    Run();
    return;
  }
  const Clock::time_point submitted = Clock::now();
  context_.pool->Submit(
      1,
      [self = shared_from_this(), submitted](int) {
        self->context_.metrics->OnStage(self->rpc_, Stage::kQueue, Clock::now() - submitted);
        self->Run();
      },
      [] {});
}

void SearchCall::Run() {
  if (call_->stopped()) {
    context_.metrics->OnExpiredBeforeRun(rpc_);
    Refuse(call_->StoppedStatus());
    return;
  }
  const Clock::time_point begin = Clock::now();
  const absl::Status status = Prepare();
  started_ = Clock::now();
  context_.metrics->OnStage(rpc_, Stage::kDecode, started_ - begin);
  if (!status.ok()) {
    Refuse(status);
    return;
  }
  StartWork();
}

absl::Status SearchCall::Parse(google::protobuf::Message* message, CountsCheck check) const {
  return ParseRequest(call_->request(), context_.limits, message, check);
}

absl::StatusOr<Admission::Ticket> SearchCall::AdmitAnswer(uint64_t bytes) const {
  return context_.admission->Admit(static_cast<int64_t>(bytes), /*search=*/false);
}

absl::Status SearchCall::Acquire(const v1::TableSpec& table, v1::Metric metric) {
  absl::StatusOr<SnapshotPtr> snapshot = context_.registry->Acquire(table.name(), table.version());
  if (!snapshot.ok()) return snapshot.status();
  snapshot_ = *std::move(snapshot);
  metric_ = MetricOrDefault(metric, *snapshot_);
  return absl::OkStatus();
}

void SearchCall::ForEach(int64_t num_items, int64_t work, std::function<void(int64_t, StopPoll&)> item,
                         std::function<void()> then) {
  struct Work {
    Work(int64_t num_items, StopPredicate predicate) : items(num_items, 1), stop(std::move(predicate)) {}
    BlockCounter items;
    StopPoll stop;
  };
  const auto shared = std::make_shared<Work>(num_items, StopWithCall());
  auto lane = [shared, item = std::move(item)](int) {
    int64_t begin;
    int64_t end;
    while (!shared->stop.ShouldStop() && shared->items.Take(&begin, &end)) item(begin, shared->stop);
  };
  auto done = [self = shared_from_this(), shared, then = std::move(then)] {
    if (shared->stop.stopped()) return self->EndWork(WorkOutcome::kStopped);
    then();
  };
  if (work > kInlineWork) {
    context_.pool->Submit(LanesFor(work, context_.pool->num_threads()), std::move(lane), std::move(done));
    return;
  }
  lane(0);
  done();
}

StopPredicate SearchCall::StopWithCall() {
  return [self = shared_from_this()] {
    if (self->first_poll_ns_.load(std::memory_order_relaxed) == 0) {
      int64_t none = 0;
      const int64_t waited = std::max<int64_t>((Clock::now() - self->started_) / std::chrono::nanoseconds(1), 1);
      self->first_poll_ns_.compare_exchange_strong(none, waited, std::memory_order_relaxed);
    }
    return self->call_->stopped();
  };
}

StopPredicate SearchCall::StopWithCallUntimed() {
  return [self = shared_from_this()] { return self->call_->stopped(); };
}

void SearchCall::EndWork(WorkOutcome outcome) {
  const Clock::time_point ended = Clock::now();
  const std::chrono::nanoseconds waited(first_poll_ns_.load(std::memory_order_relaxed));
  context_.metrics->OnStage(rpc_, Stage::kQueue, waited);
  context_.metrics->OnStage(rpc_, Stage::kCompute, ended - started_ - waited);
  if (outcome == WorkOutcome::kStopped) {
    Refuse(call_->StoppedStatus());
    return;
  }
  absl::StatusOr<grpc::ByteBuffer> answer = WriteAnswer();
  context_.metrics->OnStage(rpc_, Stage::kEncode, Clock::now() - ended);
  if (!answer.ok()) {
    Refuse(answer.status());
    return;
  }
  GiveUpPlace();
  call_->Reply(*std::move(answer));
}

void SearchCall::Refuse(const absl::Status& status) {
  GiveUpPlace();
  call_->Fail(status);
}

void SearchCall::GiveUpPlace() { place_ = Admission::Ticket(); }

}  // namespace embedding
