#include "client/loadtest/grpc_transport.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace embedding::loadtest {
namespace {

// gRPC's monotonic clock is CLOCK_MONOTONIC, as ours.
gpr_timespec ToTimespec(int64_t time_ns) {
  gpr_timespec time = gpr_time_from_nanos(time_ns, GPR_TIMESPAN);
  time.clock_type = GPR_CLOCK_MONOTONIC;
  return time;
}

}  // namespace

struct GrpcTransport::Impl {
  struct Call {
    uint64_t number = 0;
    bool prepared = false;   // the sender's: and not started yet
    bool abandoned = false;  // started only to end
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer answer;
    grpc::Status status;
  };

  Impl(std::shared_ptr<grpc::Channel> channel, const Workload& w, const ReferenceTable* reference, int slots,
       std::chrono::milliseconds call_deadline)
      : workload(w),
        deadline_ns(std::chrono::nanoseconds(call_deadline).count()),
        stub(std::move(channel)),
        writer(w),
        checker(w, reference),
        calls(static_cast<size_t>(slots)) {}

  const Workload& workload;
  const int64_t deadline_ns;
  MonotonicClock clock;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub;
  RequestWriter writer;    // the sender's
  int64_t bytes_sent = 0;  // the sender's
  AnswerChecker checker;   // the receiver's
  std::vector<Call> calls;
  bool finished = false;  // the sender's
};

GrpcTransport::GrpcTransport(std::shared_ptr<grpc::Channel> channel, const Workload& workload,
                             const ReferenceTable* reference, int slots, std::chrono::milliseconds deadline)
    : impl_(std::make_unique<Impl>(std::move(channel), workload, reference, slots, deadline)) {}

GrpcTransport::~GrpcTransport() {
  // A queue must be shut down and empty before it goes.
  FinishSending();
  void* tag;
  bool ok;
  while (impl_->queue.Next(&tag, &ok)) {
  }
}

void GrpcTransport::Prepare(uint32_t slot, uint64_t number, int64_t not_before_ns) {
  Impl& impl = *impl_;
  Impl::Call& call = impl.calls[slot];
  const size_t size = impl.writer.Prepare(number);
  grpc_slice memory = grpc_slice_malloc(size);
  impl.writer.Write(GRPC_SLICE_START_PTR(memory));
  const grpc::Slice slice(memory, grpc::Slice::STEAL_REF);
  const grpc::ByteBuffer request(&slice, 1);
  impl.bytes_sent += static_cast<int64_t>(size);

  call.number = number;
  call.prepared = true;
  call.reader.reset();
  call.answer.Clear();
  call.context = std::make_unique<grpc::ClientContext>();
  call.context->set_deadline(ToTimespec(not_before_ns + impl.deadline_ns));
  call.reader = impl.stub.PrepareUnaryCall(call.context.get(), impl.workload.method(), request, &impl.queue);
}

void GrpcTransport::Start(uint32_t slot) {
  Impl::Call& call = impl_->calls[slot];
  call.prepared = false;
  call.reader->StartCall();
  call.reader->Finish(&call.answer, &call.status, reinterpret_cast<void*>(static_cast<uintptr_t>(slot)));
}

void GrpcTransport::FinishSending() {
  if (std::exchange(impl_->finished, true)) return;
  // The library frees the request of a prepared call only when the call ends, so those that are not wanted any more end
  // cancelled; nothing of them reaches the wire.
  for (size_t slot = 0; slot < impl_->calls.size(); ++slot) {
    Impl::Call& call = impl_->calls[slot];
    if (!call.prepared) continue;
    call.abandoned = true;
    call.context->TryCancel();
    Start(static_cast<uint32_t>(slot));
  }
  impl_->queue.Shutdown();
}

Transport::NextResult GrpcTransport::Next(int64_t until_ns, CallDone* done) {
  Impl& impl = *impl_;
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec until =
      until_ns == kForever ? gpr_inf_future(GPR_CLOCK_MONOTONIC) : ToTimespec(std::max<int64_t>(until_ns, 0));
  do {
    switch (impl.queue.AsyncNext(&tag, &ok, until)) {
      case grpc::CompletionQueue::SHUTDOWN:
        return NextResult::kClosed;
      case grpc::CompletionQueue::TIMEOUT:
        return NextResult::kTimeout;
      case grpc::CompletionQueue::GOT_EVENT:
        break;
    }
    done->slot = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(tag));
  } while (impl.calls[done->slot].abandoned);
  done->done_ns = impl.clock.NowNs();
  Impl::Call& call = impl.calls[done->slot];
  done->code = static_cast<int>(call.status.error_code());
  done->message = call.status.error_message();
  done->bytes = static_cast<int64_t>(call.answer.Length());
  done->verdict = Verdict::kUnchecked;
  if (done->code == 0) {
    grpc::ProtoBufferReader reader(&call.answer);
    if (reader.status().ok()) {
      done->verdict = impl.checker.Check(call.number, &reader, &done->message);
    } else {
      done->verdict = Verdict::kMalformed;
      done->message = "the answer's bytes cannot be read";
    }
  }
  return NextResult::kDone;
}

int64_t GrpcTransport::bytes_sent() const { return impl_->bytes_sent; }

const AnswerChecker& GrpcTransport::checker() const { return impl_->checker; }

}  // namespace embedding::loadtest
