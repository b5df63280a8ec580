#include "server/service/rpc_server.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "grpc/grpc.h"
#include "grpc/support/time.h"
#include "server/exec/worker_pool.h"
#include "server/service/completion.h"
#include "server/service/stream_method.h"
#include "server/service/unary_method.h"

namespace embedding {
namespace {

// One queue for all threads: with more of them, connections are dealt to queues in turn, and few connections leave some
// idle.
constexpr int kNumQueues = 1;
// Calls waiting for callers, per method and queue. Each is one more tag that the library searches through (see the
// header); a call that finds none parked waits inside the library, so the methods that carry the load get more.
constexpr int kParkedDataCalls = 16;
constexpr int kParkedOtherCalls = 2;

// Answers wait for company while a thread works off so many events at most. If all that a caller has outstanding were
// held, server and caller would take turns instead of working side by side. Calls/s of this bound over those of 32, on
// a stream: 1.5 with 32 single rows outstanding, 0.96 with 128, no difference with 8 or with 64 rows of 512 bytes a
// call.
constexpr int kMaxEventsWhileHeld = 8;

// Calls of one connection that may be open at once; more wait at the caller.
constexpr int kMaxConcurrentStreams = 100;
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr int kHandshakeTimeoutMs = 10'000;
// Pings find peers that vanished without a word. Callers may ping every ten seconds, idle ones too.
constexpr int kKeepaliveTimeMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kMinPingIntervalMs = 10'000;

bool IsDataMethod(Rpc rpc) { return rpc == Rpc::kLookup || rpc == Rpc::kSimilarity || rpc == Rpc::kNearestNeighbour; }

// Those that run on another thread, where a caller's giving up can save work. A plain Lookup is over before
// the news of it, which costs each call an operation; one that computes for long ends with its deadline.
bool MayRunLong(Rpc rpc) { return rpc == Rpc::kSimilarity || rpc == Rpc::kNearestNeighbour || rpc == Rpc::kLoadTable; }

// Changes to what is served take as long as they take: a load of 100 GB is not ended by what bounds a Lookup.
bool IsAdminMethod(Rpc rpc) {
  return rpc == Rpc::kLoadTable || rpc == Rpc::kUnloadTable || rpc == Rpc::kSetServingVersion;
}
constexpr std::chrono::hours kMaxAdminDeadline{24};

// "/package.Service/Method" -> "package.Service".
std::string ServiceOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(path.substr(1, slash - 1));
}

}  // namespace

struct RpcServer::Impl {
  Impl(RequestLimits request_limits, Metrics& all_metrics, int threads)
      : limits(request_limits), metrics(all_metrics), num_threads(threads) {}

  const RequestLimits limits;
  Metrics& metrics;
  const int num_threads;
  std::vector<RpcMethod> methods;
  std::vector<StreamMethod> streams;

  // Declared in the order in which they are needed: calls borrow the services and queues.
  std::map<std::string, std::unique_ptr<RawService>> services;
  std::vector<int> method_index;  // of each method in its service
  std::vector<int> stream_index;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  LiveCount live;
  DrainEpoch epoch;
  std::vector<std::unique_ptr<UnaryMethod>> unary_methods;
  std::vector<std::unique_ptr<StreamingMethod>> stream_methods;
  std::unique_ptr<WorkerPool> pollers;  // its workers are the polling threads, each in one endless lane
  bool joined = false;

  RawService& ServiceFor(const std::string& path) {
    std::unique_ptr<RawService>& service = services[ServiceOf(path)];
    if (service == nullptr) service = std::make_unique<RawService>();
    return *service;
  }

  static void Poll(grpc::ServerCompletionQueue* queue) {
    void* tag = nullptr;
    bool ok = false;
    HeldAnswers held;
    int events = 0;  // since answers are held
    for (;;) {
      if (held.empty()) {
        events = 0;
        if (!queue->Next(&tag, &ok)) return;
      } else if (++events > kMaxEventsWhileHeld) {
        held.Flush();
        continue;
      } else {
        // Only what is ready: answers wait.
        const auto next = queue->AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
        if (next != grpc::CompletionQueue::GOT_EVENT) {
          held.Flush();
          continue;
        }
      }
      static_cast<Completion*>(tag)->Run(ok);
    }
  }
};

RpcServer::RpcServer(std::vector<RpcMethod> methods, RequestLimits limits, Metrics& metrics, int num_threads,
                     std::vector<StreamMethod> streams)
    : impl_(std::make_unique<Impl>(limits, metrics, std::max(num_threads, kNumQueues))) {
  impl_->methods = std::move(methods);
  impl_->streams = std::move(streams);
  for (const RpcMethod& method : impl_->methods) {
    impl_->method_index.push_back(impl_->ServiceFor(method.path).AddUnary(method.path));
  }
  for (const StreamMethod& stream : impl_->streams) {
    impl_->stream_index.push_back(impl_->ServiceFor(stream.path).AddStream(stream.path));
  }
}

RpcServer::~RpcServer() { Join(); }

void RpcServer::Register(grpc::ServerBuilder& builder) {
  for (auto& [name, service] : impl_->services) builder.RegisterService(service.get());
  for (int i = 0; i < kNumQueues; ++i) impl_->queues.push_back(builder.AddCompletionQueue());

  builder.SetMaxReceiveMessageSize(static_cast<int>(impl_->limits.max_request_bytes));
  builder.SetMaxSendMessageSize(-1);  // handlers refuse too large an answer before they make it, with advice
  // Otherwise a second server binds the same port without a word and takes half of the traffic.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);  // bookkeeping per message that nobody reads
}

void RpcServer::Start() {
  Impl& impl = *impl_;
  for (auto& queue : impl.queues) {
    for (size_t i = 0; i < impl.methods.size(); ++i) {
      const RpcMethod& method = impl.methods[i];
      const std::chrono::milliseconds max_deadline =
          IsAdminMethod(method.rpc) ? kMaxAdminDeadline : impl.limits.max_deadline;
      impl.unary_methods.push_back(
          std::make_unique<UnaryMethod>(method, UnaryMethod::Settings{max_deadline, MayRunLong(method.rpc)},
                                        impl.services.at(ServiceOf(method.path)).get(), impl.method_index[i],
                                        queue.get(), &impl.metrics, &impl.live, &impl.epoch));
      const int parked = IsDataMethod(method.rpc) ? kParkedDataCalls : kParkedOtherCalls;
      for (int j = 0; j < parked; ++j) impl.unary_methods.back()->Park();
    }
    for (size_t i = 0; i < impl.streams.size(); ++i) {
      const StreamMethod& stream = impl.streams[i];
      impl.stream_methods.push_back(
          std::make_unique<StreamingMethod>(stream, impl.services.at(ServiceOf(stream.path)).get(),
                                            impl.stream_index[i], queue.get(), &impl.metrics, &impl.live, &impl.epoch));
      impl.stream_methods.back()->Park();
    }
  }
  impl.pollers = std::make_unique<WorkerPool>(impl.num_threads);
  impl.pollers->Submit(
      impl.num_threads, [&impl](int lane) { Impl::Poll(impl.queues[static_cast<size_t>(lane % kNumQueues)].get()); },
      [] {});
}

int64_t RpcServer::in_flight() const { return impl_->metrics.calls_started() - impl_->metrics.calls_handled(); }

void RpcServer::BeginDrain() {
  impl_->epoch.Begin();
  for (auto& stream : impl_->stream_methods) {
    stream->EndAll(grpc::Status(grpc::StatusCode::UNAVAILABLE, "server is shutting down"));
  }
}

int64_t RpcServer::undrained_calls() const { return impl_->epoch.early_calls(); }

void RpcServer::Join() {
  if (impl_->joined) return;
  impl_->live.AwaitZero();
  for (auto& queue : impl_->queues) queue->Shutdown();
  if (impl_->pollers != nullptr) {
    impl_->pollers.reset();  // waits for its lanes, which end with the queues
  } else {
    for (auto& queue : impl_->queues) Impl::Poll(queue.get());
  }
  impl_->joined = true;
}

}  // namespace embedding
