// The transport with toy methods, spoken to by gRPC's own client over a loopback port.
#include "server/service/rpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "proto/status_codec.h"
#include "server/exec/mutex.h"
#include "server/exec/worker_pool.h"
#include "tests/server/service/loopback_server.h"

namespace embedding {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

grpc::ByteBuffer Body(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Text(const grpc::ByteBuffer& body) {
  grpc::Slice slice;
  if (!body.TrySingleSlice(&slice).ok() && !body.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

constexpr char kLookup[] = "/embedding.v1.EmbeddingService/Lookup";                // answered by `lookup`
constexpr char kNeighbours[] = "/embedding.v1.EmbeddingService/NearestNeighbour";  // answered by `search`
constexpr char kInfo[] = "/embedding.v1.TableService/GetServerInfo";               // echoes
constexpr char kEcho[] = "/test.Echo/Stream";

// Sends each message back; "bye" ends the stream.
class EchoHandler final : public StreamHandler {
 public:
  explicit EchoHandler(StreamPtr stream) : stream_(std::move(stream)) {}
  void OnMessage(const grpc::ByteBuffer& message) override {
    stream_->Write(message);
    if (Text(message) == "bye") stream_->Finish(grpc::Status(grpc::StatusCode::ABORTED, "said bye"));
  }
  void OnHalfClose() override { stream_->Finish(grpc::Status::OK); }

 private:
  const StreamPtr stream_;
};

struct Outcome {
  grpc::Status status;
  std::string body;
  std::multimap<grpc::string_ref, grpc::string_ref> trailers;
};

class RpcServerTest : public ::testing::Test {
 protected:
  using Handler = std::function<void(CallPtr)>;

  void Serve(const Handler& lookup, const Handler& search = {}, RequestLimits limits = {}) {
    const Handler echo = [](const CallPtr& call) { call->Reply(call->request()); };
    const std::vector<RpcMethod> methods = {{kLookup, Rpc::kLookup, lookup ? lookup : echo},
                                            {kNeighbours, Rpc::kNearestNeighbour, search ? search : echo},
                                            {kInfo, Rpc::kGetServerInfo, echo}};
    const std::vector<StreamMethod> streams = {
        {kEcho, [](StreamPtr stream) { return std::make_unique<EchoHandler>(std::move(stream)); }}};
    server_ = std::make_unique<testing::LoopbackServer>(methods, streams, limits, metrics_);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    channel_ = server_->NewChannel(arguments);
  }

  void TearDown() override { Stop(std::chrono::seconds(60)); }

  void Stop(milliseconds timeout) {
    if (server_ == nullptr) return;
    server_->Stop(timeout);
    EXPECT_EQ(metrics_.calls_started(), metrics_.calls_handled());
    server_.reset();
  }

  Outcome Ask(const std::string& path, const std::string& body, grpc::ClientContext& context) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    Outcome outcome;
    const auto reader = stub.PrepareUnaryCall(&context, path, Body(body), &queue);
    reader->StartCall();
    grpc::ByteBuffer answer;
    reader->Finish(&answer, &outcome.status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    if (outcome.status.ok()) outcome.body = Text(answer);
    outcome.trailers = context.GetServerTrailingMetadata();
    queue.Shutdown();
    EXPECT_FALSE(queue.Next(&tag, &ok));
    return outcome;
  }
  Outcome Ask(const std::string& path, const std::string& body) {
    contexts_.push_back(std::make_unique<grpc::ClientContext>());
    return Ask(path, body, *contexts_.back());
  }

  Metrics metrics_{BuildInfo{}};
  WorkerPool pool_{2};
  std::unique_ptr<testing::LoopbackServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;  // trailers are views into them
};

TEST_F(RpcServerTest, HandsOverTheBytesOfEachMethodOfEachService) {
  Serve([](const CallPtr& call) { call->Reply(Body("rows of " + Text(call->request()))); });
  EXPECT_EQ(Ask(kLookup, "3").body, "rows of 3");
  EXPECT_EQ(Ask(kNeighbours, "near").body, "near");
  EXPECT_EQ(Ask(kInfo, "").body, "");
  EXPECT_EQ(Ask("/embedding.v1.EmbeddingService/Other", "x").status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(metrics_.calls_handled(), 3);
}

TEST_F(RpcServerTest, SendsErrorsWithTheirDetails) {
  Serve([](const CallPtr& call) {
    call->Fail(ErrorWithDetails(absl::StatusCode::kNotFound, "no table", {"TABLE_NOT_FOUND", {{"table", "x"}}, {}}));
  });
  const Outcome outcome = Ask(kLookup, "");
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(outcome.status.error_message(), "no table");
  EXPECT_EQ(DetailsOf(FromGrpcStatus(outcome.status)).reason, "TABLE_NOT_FOUND");
  EXPECT_EQ(outcome.trailers.count(kRetryPushbackHeader), 0u);
}

TEST_F(RpcServerTest, SendsThePushbackOfAnOverload) {
  Serve([](const CallPtr& call) {
    call->Fail(ErrorWithDetails(absl::StatusCode::kResourceExhausted, "too much",
                                {"OVERLOADED", {{kRetryPushbackKey, "250"}}, {}}));
  });
  const Outcome outcome = Ask(kLookup, "");
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto header = outcome.trailers.find(kRetryPushbackHeader);
  ASSERT_NE(header, outcome.trailers.end());
  EXPECT_EQ(std::string(header->second.data(), header->second.size()), "250");
}

TEST_F(RpcServerTest, AnswersMoreCallsAtOnceThanAreParked) {
  // No handler answers before all have arrived.
  constexpr int kCalls = 80;
  Mutex mutex;
  std::vector<CallPtr> waiting;
  Serve({}, [&](CallPtr call) {
    MutexLock lock(&mutex);
    waiting.push_back(std::move(call));
    if (waiting.size() < kCalls) return;
    for (const CallPtr& each : waiting) each->Reply(each->request());
    waiting.clear();
  });
  std::vector<std::thread> callers;
  callers.reserve(kCalls);
  std::atomic<int> right{0};
  for (int i = 0; i < kCalls; ++i) {
    callers.emplace_back([&, i] {
      grpc::ClientContext context;
      if (Ask(kNeighbours, std::to_string(i), context).body == std::to_string(i)) ++right;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right.load(), kCalls);
}

TEST_F(RpcServerTest, UsesCallsAgainForThousands) {
  Serve({}, [&](const CallPtr& call) { pool_.Submit(1, [call](int) { call->Reply(call->request()); }, {}); });
  std::vector<std::thread> callers;
  callers.reserve(4);
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&, i] {
      for (int j = 0; j < 500; ++j) {
        const std::string text = std::to_string(i * 1000 + j);
        grpc::ClientContext context;
        if (Ask(j % 2 == 0 ? kNeighbours : kInfo, text, context).body == text) ++right;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right.load(), 2000);
  EXPECT_EQ(metrics_.calls_handled(), 2000);
}

TEST_F(RpcServerTest, TheDeadlineIsTheCallersOrTheServersMaximumWhicheverIsEarlier) {
  std::vector<std::chrono::nanoseconds> left;
  RequestLimits limits;
  limits.max_deadline = std::chrono::minutes(10);
  Serve(
      [&](const CallPtr& call) {
        left.push_back(call->deadline() - std::chrono::steady_clock::now());
        call->Reply({});
      },
      {}, limits);
  for (const auto deadline : {std::chrono::minutes(5), std::chrono::minutes(15)}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    EXPECT_TRUE(Ask(kLookup, "", context).status.ok());
  }
  EXPECT_TRUE(Ask(kLookup, "").status.ok());
  ASSERT_EQ(left.size(), 3u);
  EXPECT_LT(left[0], std::chrono::minutes(6));  // on its way a time is rounded up, by a second at this size
  EXPECT_GT(left[0], std::chrono::minutes(4));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    EXPECT_LE(left[i], std::chrono::minutes(10));
    EXPECT_GT(left[i], std::chrono::minutes(9));
  }
}

// Works until it is told to stop, and tells why.
void WorkUntilStopped(WorkerPool& pool, const CallPtr& call) {
  pool.Submit(1,
              [call](int) {
                while (!call->stopped()) std::this_thread::yield();
                call->Fail(call->StoppedStatus());
              },
              {});
}

TEST_F(RpcServerTest, AHandlerSeesThatItsCallerCancelled) {
  std::atomic<int> code{-1};
  std::atomic<bool> arrived{false};
  Serve({}, [&](const CallPtr& call) {
    arrived.store(true);
    pool_.Submit(1,
                 [&, call](int) {
                   while (!call->stopped()) std::this_thread::yield();
                   code.store(static_cast<int>(call->StoppedStatus().code()));
                   call->Fail(call->StoppedStatus());
                 },
                 {});
  });
  grpc::ClientContext context;
  std::thread canceller([&] {
    while (!arrived.load()) std::this_thread::yield();
    context.TryCancel();
  });
  EXPECT_EQ(Ask(kNeighbours, "", context).status.error_code(), grpc::StatusCode::CANCELLED);
  canceller.join();
  while (server_->rpc().in_flight() > 0) std::this_thread::yield();
  EXPECT_EQ(code.load(), static_cast<int>(absl::StatusCode::kCancelled));
}

TEST_F(RpcServerTest, AHandlerSeesThatTheTimeIsOver) {
  RequestLimits limits;
  limits.max_deadline = milliseconds(20);
  Serve(
      {}, [&](const CallPtr& call) { WorkUntilStopped(pool_, call); }, limits);
  const Outcome without = Ask(kNeighbours, "");
  EXPECT_EQ(without.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(without.status.error_message(), HasSubstr("20 ms (--max-deadline)"));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + milliseconds(5));
  EXPECT_EQ(Ask(kNeighbours, "", context).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(RpcServerTest, RequestsOverTheLimitAreResourceExhausted) {
  RequestLimits limits;
  limits.max_request_bytes = 1000;
  Serve({}, {}, limits);
  EXPECT_EQ(Ask(kInfo, std::string(1000, 'x')).body.size(), 1000u);
  EXPECT_EQ(Ask(kInfo, std::string(1001, 'x')).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Ask(kInfo, "next").body, "next");
}

TEST_F(RpcServerTest, ShutdownWaitsForCallsThatReachedAHandler) {
  CallPtr held;
  std::atomic<bool> arrived{false};
  Serve({}, [&](CallPtr call) {
    held = std::move(call);
    arrived.store(true);
  });
  Outcome outcome;
  grpc::ClientContext context;
  std::thread caller([&] { outcome = Ask(kNeighbours, "", context); });
  while (!arrived.load()) std::this_thread::yield();
  server_->rpc().BeginDrain();
  EXPECT_EQ(server_->rpc().undrained_calls(), 1);
  EXPECT_EQ(server_->rpc().in_flight(), 1);
  std::thread stopper([&] { Stop(std::chrono::seconds(60)); });
  held->Reply(Body("in time"));
  held.reset();
  stopper.join();
  caller.join();
  EXPECT_EQ(outcome.body, "in time");
}

TEST_F(RpcServerTest, ShutdownStopsCallsThatOutlastItsTimeout) {
  std::atomic<bool> arrived{false};
  Serve({}, [&](const CallPtr& call) {
    arrived.store(true);
    WorkUntilStopped(pool_, call);
  });
  grpc::ClientContext context;
  Outcome outcome;
  std::thread caller([&] { outcome = Ask(kNeighbours, "", context); });
  while (!arrived.load()) std::this_thread::yield();
  Stop(milliseconds(0));
  caller.join();
  EXPECT_FALSE(outcome.status.ok());
}

class EchoStream {
 public:
  explicit EchoStream(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub_.PrepareCall(&context_, kEcho, &queue_);
    stream_->StartCall(nullptr);
    EXPECT_TRUE(Done());
  }
  ~EchoStream() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) continue;
  }
  bool Write(const std::string& text) {
    stream_->Write(Body(text), nullptr);
    return Done();
  }
  bool Read(std::string& text) {
    grpc::ByteBuffer message;
    stream_->Read(&message, nullptr);
    if (!Done()) return false;
    text = Text(message);
    return true;
  }
  void WritesDone() {
    stream_->WritesDone(nullptr);
    EXPECT_TRUE(Done());
  }
  grpc::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    EXPECT_TRUE(Done());
    return status;
  }
  grpc::ClientContext& context() { return context_; }

 private:
  bool Done() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

TEST_F(RpcServerTest, StreamsAnswerInOrderAndEndWithTheCaller) {
  Serve({});
  EchoStream stream(channel_);
  std::string text;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream.Write(std::to_string(i)));
    ASSERT_TRUE(stream.Read(text));
    EXPECT_EQ(text, std::to_string(i));
  }
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(stream.Write(std::to_string(i)));
  stream.WritesDone();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(stream.Read(text));
    EXPECT_EQ(text, std::to_string(i));
  }
  EXPECT_FALSE(stream.Read(text));
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(metrics_.calls_started(), 0);
}

TEST_F(RpcServerTest, StreamsEndAfterWhatWasQueued) {
  Serve({});
  EchoStream stream(channel_);
  std::string text;
  ASSERT_TRUE(stream.Write("bye"));
  ASSERT_TRUE(stream.Read(text));
  EXPECT_EQ(text, "bye");
  EXPECT_FALSE(stream.Read(text));
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(RpcServerTest, StreamsOfCallersWhoGoAreLetGo) {
  Serve({});
  {
    EchoStream stream(channel_);
    std::string text;
    ASSERT_TRUE(stream.Write("one"));
    ASSERT_TRUE(stream.Read(text));
    stream.context().TryCancel();
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EchoStream next(channel_);
  std::string text;
  ASSERT_TRUE(next.Write("two"));
  ASSERT_TRUE(next.Read(text));
  EXPECT_EQ(text, "two");
  next.WritesDone();
  EXPECT_TRUE(next.Finish().ok());
}

TEST_F(RpcServerTest, ADrainEndsOpenAndNewStreams) {
  Serve({});
  EchoStream open(channel_);
  std::string text;
  ASSERT_TRUE(open.Write("one"));
  ASSERT_TRUE(open.Read(text));
  server_->rpc().BeginDrain();
  EXPECT_FALSE(open.Read(text));
  const grpc::Status status = open.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "server is shutting down");
  EchoStream late(channel_);
  EXPECT_FALSE(late.Read(text));
  EXPECT_EQ(late.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(RpcServerLifeTest, MayEndWithoutHavingServed) {
  Metrics metrics{BuildInfo{}};
  {
    RpcServer never_registered({{kLookup, Rpc::kLookup, [](const CallPtr&) {}}}, {}, metrics, 1);
  }
  RpcServer rpc({{kLookup, Rpc::kLookup, [](const CallPtr&) {}}}, {}, metrics, 1);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials());
  rpc.Register(builder);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  server->Shutdown();
  rpc.Join();
}

}  // namespace
}  // namespace embedding
