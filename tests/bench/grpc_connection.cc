// The unary calls and the stream of lookup_client: raw bytes on a completion queue, one thread.
#include <algorithm>
#include <cstring>

#include "client/channel.h"
#include "embedding/v1/embedding.pb.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/bench/lookup_connection.h"
#include "tests/bench/textbook.pb.h"

namespace embedding::bench {
namespace {

grpc::ByteBuffer BodyOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Flatten(const grpc::ByteBuffer& body) {
  std::vector<grpc::Slice> slices;
  if (!body.Dump(&slices).ok()) Die("an answer cannot be read");
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

// Copies an answer once, as a client that keeps it would.
class Copier {
 public:
  void Copy(const grpc::ByteBuffer& body) {
    buffer_.resize(std::max(buffer_.size(), body.Length()));
    std::vector<grpc::Slice> slices;
    if (!body.Dump(&slices).ok()) Die("an answer cannot be read");
    size_t at = 0;
    for (const grpc::Slice& slice : slices) {
      std::memcpy(buffer_.data() + at, slice.begin(), slice.size());
      at += slice.size();
    }
  }

 private:
  std::vector<char> buffer_;
};

std::shared_ptr<grpc::Channel> ChannelTo(const Setup& setup) {
  ClientOptions options;
  options.address = setup.address;
  options.max_receive_bytes = 64 << 20;
  return CreateClientChannel(options);
}

std::string LookupBytes(const std::vector<int64_t>& ids) {
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids()->mutable_values()->Assign(ids.begin(), ids.end());
  return request.SerializeAsString();
}

class UnaryConnection final : public Connection {
 public:
  UnaryConnection(const Setup& setup, const Batches& batches, int outstanding)
      : textbook_(setup.kind == "textbook"),
        path_(setup.kind == "floor"              ? "/embedding.bench.Floor/Lookup"
              : textbook_ || setup.kind == "api" ? "/textbook.Embeddings/Lookup"
                                                 : "/embedding.v1.EmbeddingService/Lookup"),
        stub_(ChannelTo(setup)),
        calls_(static_cast<size_t>(outstanding)) {
    for (const auto& ids : batches) {
      if (textbook_) {
        textbook::LookupRequest request;
        request.mutable_ids()->Assign(ids.begin(), ids.end());
        requests_.push_back(BodyOf(request.SerializeAsString()));
      } else {
        requests_.push_back(BodyOf(LookupBytes(ids)));
      }
    }
  }

  ~UnaryConnection() override {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  std::vector<float> FetchRows() override {
    Start(calls_[0]);
    Await();
    next_ = 0;
    const std::string bytes = Flatten(calls_[0].answer);
    if (textbook_) {
      textbook::LookupResponse response;
      if (!response.ParseFromString(bytes)) Die("the answer does not parse");
      return {response.values().begin(), response.values().end()};
    }
    v1::LookupResponse response;
    if (!response.ParseFromString(bytes)) return {};  // the floor's bytes mean nothing
    return FloatsOf(response.embeddings().data());
  }

  void Run(Window& window) override {
    for (Call& call : calls_) Start(call);
    size_t running = calls_.size();
    while (running > 0) {
      Call& call = *Await();
      if (window.copy) copier_.Copy(call.answer);
      if (Clock::now() < window.end) {
        ++window.calls;
        Start(call);
      } else {
        --running;
      }
    }
  }

 private:
  struct Call {
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer answer;
    grpc::Status status;
  };

  void Start(Call& call) {
    call.reader.reset();
    call.answer.Clear();
    call.context = std::make_unique<grpc::ClientContext>();
    call.reader = stub_.PrepareUnaryCall(call.context.get(), path_, requests_[next_++ % requests_.size()], &queue_);
    call.reader->StartCall();
    call.reader->Finish(&call.answer, &call.status, &call);
  }

  Call* Await() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok)) Die("the queue ended");
    Call* call = static_cast<Call*>(tag);
    if (!call->status.ok()) Die("a call failed: " + call->status.error_message());
    return call;
  }

  const bool textbook_;
  const std::string path_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::vector<grpc::ByteBuffer> requests_;
  size_t next_ = 0;
  std::vector<Call> calls_;
  Copier copier_;
};

class StreamConnection final : public Connection {
 public:
  StreamConnection(const Setup& setup, const Batches& batches, int outstanding)
      : outstanding_(outstanding), stub_(ChannelTo(setup)) {
    for (const auto& ids : batches) {
      v1::LookupStreamRequest request;
      request.mutable_lookup()->mutable_rows()->mutable_ids()->mutable_values()->Assign(ids.begin(), ids.end());
      requests_.push_back(BodyOf(request.SerializeAsString()));
    }
    stream_ = stub_.PrepareCall(&context_, "/embedding.v1.EmbeddingService/LookupStream", &queue_);
    stream_->StartCall(&start_tag_);
    if (Await() != &start_tag_) Die("the stream did not start");
  }

  ~StreamConnection() override {
    context_.TryCancel();
    grpc::Status status;
    stream_->Finish(&status, &start_tag_);
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  std::vector<float> FetchRows() override {
    Send(/*more=*/false);
    stream_->Read(&answer_, &read_tag_);
    bool written = false, answered = false;
    while (!written || !answered) {
      const void* tag = Await();
      (tag == &read_tag_ ? answered : written) = true;
    }
    next_ = 0;
    v1::LookupStreamResponse response;
    if (!response.ParseFromString(Flatten(answer_)) || !response.has_lookup()) Die("the answer is no row");
    return FloatsOf(response.lookup().embeddings().data());
  }

  void Run(Window& window) override {
    int to_send = outstanding_;
    int to_read = outstanding_;
    bool writing = false;
    stream_->Read(&answer_, &read_tag_);
    while (to_read > 0 || writing) {
      // What has arrived is read before anything is sent, so that requests share writes to the socket.
      const void* tag = !writing && to_send > 0 ? AwaitReady() : Await();
      if (tag == nullptr) {
        Send(/*more=*/--to_send > 0);
        writing = true;
      } else if (tag == &write_tag_) {
        writing = to_send > 0;
        if (writing) Send(/*more=*/--to_send > 0);
      } else {
        if (window.copy) copier_.Copy(answer_);
        --to_read;
        if (Clock::now() < window.end) {
          ++window.calls;
          ++to_read;
          ++to_send;
        }
        if (to_read > 0) stream_->Read(&answer_, &read_tag_);
      }
    }
  }

 private:
  // more: another Send follows in any case.
  void Send(bool more) {
    grpc::WriteOptions options;
    if (more) options.set_buffer_hint();
    stream_->Write(requests_[next_++ % requests_.size()], options, &write_tag_);
  }

  void* Await() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok) || !ok) Die("the stream ended");
    return tag;
  }

  // Nullptr: nothing is ready.
  void* AwaitReady() {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_.AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
    if (next == grpc::CompletionQueue::TIMEOUT) return nullptr;
    if (next != grpc::CompletionQueue::GOT_EVENT || !ok) Die("the stream ended");
    return tag;
  }

  const int outstanding_;
  char start_tag_ = 0, read_tag_ = 0, write_tag_ = 0;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::vector<grpc::ByteBuffer> requests_;
  size_t next_ = 0;
  grpc::ByteBuffer answer_;
  Copier copier_;
};

}  // namespace

std::unique_ptr<Connection> ConnectByGrpc(const Setup& setup, const Batches& batches, int outstanding) {
  if (setup.kind == "stream") return std::make_unique<StreamConnection>(setup, batches, outstanding);
  return std::make_unique<UnaryConnection>(setup, batches, outstanding);
}

}  // namespace embedding::bench
