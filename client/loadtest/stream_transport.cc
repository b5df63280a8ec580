#include "client/loadtest/stream_transport.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace embedding::loadtest {
namespace {

// How often the receiver of a stream that is over looks for calls that the sender adds.
constexpr int64_t kLookAgainNs = 5'000'000;

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr char kMethod[] = "/embedding.v1.EmbeddingService/LookupStream";
// Field 1 of request and answer, a message.
constexpr uint8_t kLookupTag = 1 << 3 | 2;

enum Tag : uintptr_t { kOpened = 1, kWritten, kDoneWriting, kRead, kFinished };

gpr_timespec ToTimespec(int64_t time_ns) {
  gpr_timespec time = gpr_time_from_nanos(time_ns, GPR_TIMESPAN);
  time.clock_type = GPR_CLOCK_MONOTONIC;
  return time;
}

void* TagOf(Tag tag) { return reinterpret_cast<void*>(static_cast<uintptr_t>(tag)); }

}  // namespace

struct StreamTransport::Impl {
  struct Call {
    uint64_t number = 0;
    grpc::ByteBuffer request;
  };

  Impl(std::shared_ptr<grpc::Channel> channel, const Workload& w, const ReferenceTable* reference, int slots)
      : stub(std::move(channel)), writer(w), checker(w, reference), calls(static_cast<size_t>(slots)) {}

  // Starts the next write, or the end of writing.
  void AdvanceWrites() {  // with mutex
    if (!open || writing || broken) return;
    if (!to_write.empty()) {
      writing = true;
      const uint32_t slot = to_write.front();
      to_write.pop_front();
      grpc::WriteOptions options;
      // More to come: the library may wait for it before it writes to the socket. Not so behind the first message: with
      // it the library may still hold the stream's headers, and what waits for their write would wait for ever.
      if (std::exchange(begun, true) && !to_write.empty()) options.set_buffer_hint();
      under_way.push_back(slot);
      stream->Write(calls[slot].request, options, TagOf(kWritten));
    } else if (finishing && !done_writing) {
      done_writing = true;
      stream->WritesDone(TagOf(kDoneWriting));
    }
  }

  grpc::CompletionQueue queue;
  grpc::GenericStub stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
  MonotonicClock clock;
  RequestWriter writer;    // the sender's
  int64_t bytes_sent = 0;  // the sender's
  AnswerChecker checker;   // the receiver's
  grpc::ByteBuffer answer;
  grpc::Status status;
  bool over = false;    // the receiver's: the status is there
  bool closed = false;  // the receiver's: and the queue is shut down

  std::mutex mutex;
  std::vector<Call> calls;         // guarded by mutex, as all below
  std::deque<uint32_t> to_write;   // slots
  std::deque<uint32_t> under_way;  // slots, in the order of their answers
  bool open = false;
  bool begun = false;  // the first write has been started
  bool writing = false;
  bool finishing = false;
  bool done_writing = false;
  bool broken = false;  // no write will succeed any more
};

StreamTransport::StreamTransport(std::shared_ptr<grpc::Channel> channel, const Workload& workload,
                                 const ReferenceTable* reference, int slots)
    : impl_(std::make_unique<Impl>(std::move(channel), workload, reference, slots)) {
  impl_->stream = impl_->stub.PrepareCall(&impl_->context, kMethod, &impl_->queue);
  impl_->stream->StartCall(TagOf(kOpened));
}

StreamTransport::~StreamTransport() {
  // A queue must be shut down and empty before it goes.
  FinishSending();
  if (!impl_->over) impl_->context.TryCancel();
  CallDone done;
  while (Next(kForever, &done) != NextResult::kClosed) continue;
}

void StreamTransport::Prepare(uint32_t slot, uint64_t number, int64_t /*not_before_ns*/) {
  Impl& impl = *impl_;
  const size_t size = impl.writer.Prepare(number);
  const size_t head = 1 + CodedOutputStream::VarintSize64(size);
  grpc_slice memory = grpc_slice_malloc(head + size);
  uint8_t* to = GRPC_SLICE_START_PTR(memory);
  *to++ = kLookupTag;
  to = CodedOutputStream::WriteVarint64ToArray(size, to);
  impl.writer.Write(to);
  const grpc::Slice slice(memory, grpc::Slice::STEAL_REF);
  impl.bytes_sent += static_cast<int64_t>(head + size);
  std::lock_guard<std::mutex> lock(impl.mutex);
  impl.calls[slot].number = number;
  impl.calls[slot].request = grpc::ByteBuffer(&slice, 1);
}

void StreamTransport::Start(uint32_t slot) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->to_write.push_back(slot);
  impl_->AdvanceWrites();
}

void StreamTransport::FinishSending() {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->finishing = true;
  impl_->AdvanceWrites();
}

Transport::NextResult StreamTransport::Next(int64_t until_ns, CallDone* done) {
  Impl& impl = *impl_;
  const gpr_timespec until =
      until_ns == kForever ? gpr_inf_future(GPR_CLOCK_MONOTONIC) : ToTimespec(std::max<int64_t>(until_ns, 0));
  for (;;) {
    if (impl.over) {
      // What was under way, or comes later, ends with the stream.
      std::lock_guard<std::mutex> lock(impl.mutex);
      std::deque<uint32_t>& left = impl.under_way.empty() ? impl.to_write : impl.under_way;
      if (!left.empty()) {
        done->slot = left.front();
        left.pop_front();
        done->done_ns = impl.clock.NowNs();
        done->code = static_cast<int>(impl.status.ok() ? grpc::StatusCode::UNKNOWN : impl.status.error_code());
        done->message = impl.status.ok() ? "the stream ended without an answer" : impl.status.error_message();
        done->bytes = 0;
        done->verdict = Verdict::kUnchecked;
        return NextResult::kDone;
      }
      if (impl.closed) return NextResult::kClosed;
      if (impl.finishing) {
        impl.closed = true;
        impl.queue.Shutdown();
        void* tag = nullptr;
        bool ok = false;
        while (impl.queue.Next(&tag, &ok)) continue;
        return NextResult::kClosed;
      }
    }
    void* tag = nullptr;
    bool ok = false;
    // Nothing of a stream that is over wakes this thread when the sender adds a call to it.
    const gpr_timespec wake = impl.over ? ToTimespec(std::min(until_ns, impl.clock.NowNs() + kLookAgainNs)) : until;
    switch (impl.queue.AsyncNext(&tag, &ok, wake)) {
      case grpc::CompletionQueue::SHUTDOWN:
        return NextResult::kClosed;
      case grpc::CompletionQueue::TIMEOUT:
        if (impl.over && impl.clock.NowNs() < until_ns) continue;
        return NextResult::kTimeout;
      case grpc::CompletionQueue::GOT_EVENT:
        break;
    }
    switch (static_cast<Tag>(reinterpret_cast<uintptr_t>(tag))) {
      case kOpened: {
        std::lock_guard<std::mutex> lock(impl.mutex);
        impl.open = ok;
        impl.broken = !ok;
        impl.stream->Read(&impl.answer, TagOf(kRead));
        impl.AdvanceWrites();
        break;
      }
      case kWritten: {
        std::lock_guard<std::mutex> lock(impl.mutex);
        impl.writing = false;
        if (!ok) impl.broken = true;
        impl.AdvanceWrites();
        break;
      }
      case kDoneWriting:
        break;
      case kFinished: {
        std::lock_guard<std::mutex> lock(impl.mutex);
        impl.over = true;
        impl.broken = true;
        break;
      }
      case kRead: {
        if (!ok) {
          impl.stream->Finish(&impl.status, TagOf(kFinished));
          break;
        }
        done->done_ns = impl.clock.NowNs();
        uint64_t number = 0;
        {
          std::lock_guard<std::mutex> lock(impl.mutex);
          if (impl.under_way.empty()) {  // an answer to nothing: the stream cannot be trusted any more
            impl.context.TryCancel();
            impl.stream->Read(&impl.answer, TagOf(kRead));
            break;
          }
          done->slot = impl.under_way.front();
          impl.under_way.pop_front();
          number = impl.calls[done->slot].number;
        }
        grpc::ByteBuffer answer;
        answer.Swap(&impl.answer);
        impl.stream->Read(&impl.answer, TagOf(kRead));
        Judge(answer, number, done);
        return NextResult::kDone;
      }
    }
  }
}

void StreamTransport::Judge(grpc::ByteBuffer& answer, uint64_t number, CallDone* done) {
  done->code = 0;
  done->message.clear();
  done->bytes = static_cast<int64_t>(answer.Length());
  done->verdict = Verdict::kMalformed;
  grpc::ProtoBufferReader reader(&answer);
  uint32_t size = 0;
  bool is_lookup = false, readable = reader.status().ok();
  if (readable) {
    CodedInputStream in(&reader);
    const uint32_t tag = in.ReadTag();
    is_lookup = tag == kLookupTag;
    readable = tag != 0 && in.ReadVarint32(&size);
  }
  if (!readable) {
    done->message = "the answer's bytes cannot be read";
    return;
  }
  if (is_lookup) {
    google::protobuf::io::LimitingInputStream inside(&reader, size);
    done->verdict = impl_->checker.Check(number, &inside, &done->message);
    return;
  }
  v1::LookupStreamResponse response;
  grpc::ProtoBufferReader again(&answer);
  if (response.ParseFromZeroCopyStream(&again)) {
    done->code = response.error().code();
    done->message = response.error().message();
    done->verdict = Verdict::kUnchecked;
  } else {
    done->message = "the answer is no LookupStreamResponse";
  }
}

int64_t StreamTransport::bytes_sent() const { return impl_->bytes_sent; }

const AnswerChecker& StreamTransport::checker() const { return impl_->checker; }

}  // namespace embedding::loadtest
