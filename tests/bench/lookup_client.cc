// The one client of the lookup benchmarks: closed loop, the same number of calls outstanding against every server.
//
//   lookup_client KIND ADDRESS ROWS DIM BATCH OUTSTANDING CONNECTIONS [IDS]
//
// KIND: unary (LookupRequest), floor, api (the method of api_server), textbook, stream (LookupStream; one stream a
// connection, OUTSTANDING requests on all of them together), redis (MGET; keys are decimal ids). IDS: uniform, or zipf
// (P(id) ~ 1 / (id + 1)). Each connection has a thread of its own. Requests are made before the clock starts. The first
// answers are compared with the table. Then reads lines from stdin:
//   run SECONDS    a window without touching the answers
//   copy SECONDS   a window in which each answer is copied once into a buffer
// and answers each with a line {"calls":..,"rows":..,"seconds":..,"cpu_seconds":..}; or
//   pace RATE CALLS   one call at a time, planned RATE a second; answers {"calls":..,"slow":..,"worst_ms":..}: slow is
//                     a call whose answer is parsed more than 10 ms after the planned time
#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/channel.h"
#include "embedding/v1/embedding.pb.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/bench/bench_program.h"
#include "tests/bench/bench_table.h"
#include "tests/bench/textbook.pb.h"

namespace embedding::bench {
namespace {

constexpr size_t kRequests = 2048;

struct Setup {
  std::string kind;
  std::string address;
  int64_t num_rows = 0;
  int64_t dim = 0;
  int64_t batch = 0;
  int outstanding = 0;
  int connections = 0;
  bool zipf = false;
};

// What one window counts.
struct Window {
  Clock::time_point end;
  bool copy = false;
  int64_t calls = 0;
};

// One connection and its share of the calls, used by one thread.
class Connection {
 public:
  virtual ~Connection() = default;
  // Fetches request number 0 and gives its rows.
  virtual std::vector<float> FetchRows() = 0;
  virtual void Run(Window& window) = 0;
};

using Batches = std::vector<std::vector<int64_t>>;

Batches MakeBatches(const Setup& setup, uint64_t seed) {
  std::mt19937_64 random(seed);
  Batches batches(kRequests, std::vector<int64_t>(static_cast<size_t>(setup.batch)));
  std::vector<double> weights(setup.zipf ? static_cast<size_t>(setup.num_rows) : 0);
  for (size_t id = 0; id < weights.size(); ++id) weights[id] = 1 / static_cast<double>(id + 1);
  std::discrete_distribution<int64_t> zipf(weights.begin(), weights.end());
  for (auto& batch : batches) {
    for (int64_t& id : batch) {
      id = setup.zipf ? zipf(random) : static_cast<int64_t>(random() % static_cast<uint64_t>(setup.num_rows));
    }
  }
  return batches;
}

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

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
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

class RedisConnection final : public Connection {
 public:
  RedisConnection(const Setup& setup, const Batches& batches, int outstanding)
      : dim_(setup.dim), outstanding_(outstanding) {
    const size_t colon = setup.address.rfind(':');
    context_ = redisConnect(setup.address.substr(0, colon).c_str(), std::atoi(setup.address.c_str() + colon + 1));
    if (context_ == nullptr || context_->err != 0) Die("cannot connect to Redis");
    context_->reader->maxbuf = 0;  // else hiredis frees its buffer after each answer of more than 16 KiB
    for (const auto& ids : batches) {
      std::vector<std::string> words = {"MGET"};
      for (const int64_t id : ids) words.push_back(std::to_string(id));
      std::vector<const char*> arguments;
      std::vector<size_t> sizes;
      for (const std::string& word : words) {
        arguments.push_back(word.data());
        sizes.push_back(word.size());
      }
      char* command = nullptr;
      const auto size =
          redisFormatCommandArgv(&command, static_cast<int>(words.size()), arguments.data(), sizes.data());
      if (size <= 0) Die("cannot format a command");
      requests_.emplace_back(command, static_cast<size_t>(size));
      redisFreeCommand(command);
    }
  }

  ~RedisConnection() override { redisFree(context_); }

  // Writes every row, once for all connections.
  void FillTable(int64_t num_rows) {
    std::vector<float> row(static_cast<size_t>(dim_));
    constexpr int64_t kAtOnce = 500;
    for (int64_t first = 0; first < num_rows; first += kAtOnce) {
      const int64_t end = std::min(num_rows, first + kAtOnce);
      for (int64_t id = first; id < end; ++id) {
        FillRow(id, dim_, row.data());
        redisAppendCommand(context_, "SET %lld %b", static_cast<long long>(id), row.data(), row.size() * sizeof(float));
      }
      for (int64_t id = first; id < end; ++id) freeReplyObject(Reply());
    }
  }

  std::vector<float> FetchRows() override {
    Send();
    redisReply* reply = Reply();
    next_ = 0;
    std::string bytes;
    for (size_t i = 0; i < reply->elements; ++i) {
      if (reply->element[i]->type != REDIS_REPLY_STRING) Die("a row is missing");
      bytes.append(reply->element[i]->str, reply->element[i]->len);
    }
    freeReplyObject(reply);
    return FloatsOf(bytes);
  }

  // hiredis copies each value once into its reply, whatever the window asks for.
  void Run(Window& window) override {
    for (int i = 0; i < outstanding_; ++i) Send();
    int running = outstanding_;
    while (running > 0) {
      freeReplyObject(Reply());
      if (Clock::now() < window.end) {
        ++window.calls;
        Send();
      } else {
        --running;
      }
    }
  }

 private:
  void Send() {
    const std::string& request = requests_[next_++ % requests_.size()];
    if (redisAppendFormattedCommand(context_, request.data(), request.size()) != REDIS_OK) Die("cannot send");
    // As soon as it is made, as the other clients do.
    int done = 0;
    while (done == 0) {
      if (redisBufferWrite(context_, &done) != REDIS_OK) Die("cannot send");
    }
  }

  redisReply* Reply() {
    // redisGetReply would read 16 KiB at a time: 12 system calls for one answer of 64 x 768.
    void* reply = nullptr;
    for (;;) {
      int done = 0;
      while (done == 0) {
        if (redisBufferWrite(context_, &done) != REDIS_OK) Die("cannot send");
      }
      if (redisReaderGetReply(context_->reader, &reply) != REDIS_OK) Die("no reply from Redis");
      if (reply != nullptr) break;
      const ssize_t size = recv(context_->fd, received_.data(), received_.size(), 0);
      if (size <= 0) Die("Redis has gone");
      if (redisReaderFeed(context_->reader, received_.data(), static_cast<size_t>(size)) != REDIS_OK) Die("no memory");
    }
    auto* given = static_cast<redisReply*>(reply);
    if (given->type == REDIS_REPLY_ERROR) Die(std::string("Redis says ") + given->str);
    return given;
  }

  const int64_t dim_;
  const int outstanding_;
  redisContext* context_ = nullptr;
  std::vector<char> received_ = std::vector<char>(size_t{256} << 10);
  std::vector<std::string> requests_;
  size_t next_ = 0;
};

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void RunWindow(const Setup& setup, std::vector<std::unique_ptr<Connection>>& connections, double seconds, bool copy) {
  const double cpu = CpuSeconds();
  const Clock::time_point start = Clock::now();
  std::vector<Window> windows(connections.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < connections.size(); ++i) {
    windows[i].end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    windows[i].copy = copy;
    threads.emplace_back([&, i] { connections[i]->Run(windows[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed = SecondsSince(start);
  int64_t calls = setup.outstanding;  // those that ended after the window's end, and before `elapsed` was taken
  for (const Window& window : windows) calls += window.calls;
  Say("{\"calls\":%lld,\"rows\":%lld,\"seconds\":%.6f,\"cpu_seconds\":%.6f}", static_cast<long long>(calls),
      static_cast<long long>(calls * setup.batch), elapsed, CpuSeconds() - cpu);
}

void RunPaced(Connection& connection, double rate, int64_t calls) {
  constexpr std::chrono::milliseconds kSlow{10};
  int64_t slow = 0;
  std::chrono::duration<double> worst{0};
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) {
    const std::chrono::duration<double> since_start(static_cast<double>(i) / rate);
    const Clock::time_point planned = start + std::chrono::duration_cast<Clock::duration>(since_start);
    std::this_thread::sleep_until(planned);
    connection.FetchRows();
    const Clock::duration taken = Clock::now() - planned;
    if (taken > kSlow) ++slow;
    worst = std::max(worst, std::chrono::duration<double>(taken));
  }
  Say("{\"calls\":%lld,\"slow\":%lld,\"worst_ms\":%.3f}", static_cast<long long>(calls), static_cast<long long>(slow),
      worst.count() * 1e3);
}

int Main(const Setup& setup) {
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < setup.connections; ++i) {
    const Batches batches = MakeBatches(setup, static_cast<uint64_t>(i) + 1);
    const int outstanding = setup.outstanding / setup.connections;
    if (setup.kind == "redis") {
      auto connection = std::make_unique<RedisConnection>(setup, batches, outstanding);
      if (i == 0) connection->FillTable(setup.num_rows);
      connections.push_back(std::move(connection));
    } else if (setup.kind == "stream") {
      connections.push_back(std::make_unique<StreamConnection>(setup, batches, outstanding));
    } else {
      connections.push_back(std::make_unique<UnaryConnection>(setup, batches, outstanding));
    }
    const std::vector<float> rows = connections.back()->FetchRows();
    if (setup.kind == "floor" || setup.kind == "api") continue;
    std::vector<float> want(static_cast<size_t>(setup.batch * setup.dim));
    for (int64_t r = 0; r < setup.batch; ++r) {
      FillRow(batches[0][static_cast<size_t>(r)], setup.dim, want.data() + r * setup.dim);
    }
    if (rows != want) Die("the first answer is not the table's rows");
  }
  Say("ready");
  for (std::string command; std::cin >> command;) {
    if (command == "run" || command == "copy") {
      RunWindow(setup, connections, NextNumber<double>(0), command == "copy");
    } else if (command == "pace") {
      const auto rate = NextNumber<double>(1e-3);
      RunPaced(*connections[0], rate, NextNumber<int64_t>(1));
    } else {
      Die("unknown command " + command);
    }
  }
  return 0;
}

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  const std::string ids = argc == 9 ? argv[8] : "uniform";
  if (argc < 8 || argc > 9 || (ids != "uniform" && ids != "zipf")) {
    std::fprintf(stderr, "usage: lookup_client KIND ADDRESS ROWS DIM BATCH OUTSTANDING CONNECTIONS [uniform|zipf]\n");
    return 2;
  }
  // As embedding-loadtest does.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return embedding::bench::Main({argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5]),
                                 std::atoi(argv[6]), std::atoi(argv[7]), ids == "zipf"});
}
