// Which of gRPC's server APIs costs least: a raw method that answers with bytes made at start, by the callback API or
// by one completion queue. Nothing else is in it, so what differs is the API. See docs/adr/0004.
//
//   api_server callback SIZE
//   api_server queue SIZE THREADS PARKED
//
// SIZE: bytes of an answer; answers cycle through 150 MB. PARKED: calls that wait for callers. Prints the address and
// serves /textbook.Embeddings/Lookup until stdin ends.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "tests/bench/bench_program.h"
#include "tests/bench/textbook.grpc.pb.h"

namespace embedding::bench {
namespace {

using textbook::Embeddings;

class Answers {
 public:
  explicit Answers(size_t size) {
    constexpr size_t kTotalBytes = 150'000'000;
    for (size_t at = 0; at < kTotalBytes; at += size) {
      const grpc::Slice slice(std::string(size, static_cast<char>(at)));
      answers_.emplace_back(&slice, 1);
    }
  }
  const grpc::ByteBuffer& Next() { return answers_[next_.fetch_add(1, std::memory_order_relaxed) % answers_.size()]; }

 private:
  std::vector<grpc::ByteBuffer> answers_;
  std::atomic<size_t> next_{0};
};

class CallbackService final : public Embeddings::WithRawCallbackMethod_Lookup<Embeddings::Service> {
 public:
  explicit CallbackService(Answers& answers) : answers_(answers) {}
  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context, const grpc::ByteBuffer* /*request*/,
                                   grpc::ByteBuffer* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    *response = answers_.Next();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  Answers& answers_;
};

using QueueService = Embeddings::WithRawMethod_Lookup<Embeddings::Service>;

// One call after the other: parked, answered, parked again.
class QueueCall {
 public:
  QueueCall(QueueService& service, grpc::ServerCompletionQueue& queue, Answers& answers)
      : service_(service), queue_(queue), answers_(answers) {
    Park();
  }

  void Run(bool ok) {
    if (answering_) {
      Park();
    } else if (ok) {  // else the server has shut down
      answering_ = true;
      writer_->Finish(answers_.Next(), grpc::Status::OK, this);
    }
  }

 private:
  void Park() {
    answering_ = false;
    request_.Clear();
    context_.emplace();
    writer_.emplace(&*context_);
    service_.RequestLookup(&*context_, &request_, &*writer_, &queue_, &queue_, this);
  }

  QueueService& service_;
  grpc::ServerCompletionQueue& queue_;
  Answers& answers_;
  bool answering_ = false;
  grpc::ByteBuffer request_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> writer_;
};

int RunCallback(Answers& answers) {
  CallbackService service(answers);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return EXIT_FAILURE;
  ServeUntilStdinEnds(port);
  server->Shutdown(std::chrono::system_clock::now());
  return EXIT_SUCCESS;
}

int RunQueue(Answers& answers, int num_threads, int parked) {
  QueueService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return EXIT_FAILURE;
  std::vector<std::unique_ptr<QueueCall>> calls;
  for (int i = 0; i < parked; ++i) calls.push_back(std::make_unique<QueueCall>(service, *queue, answers));
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&queue] {
      void* tag = nullptr;
      bool ok = false;
      while (queue->Next(&tag, &ok)) static_cast<QueueCall*>(tag)->Run(ok);
    });
  }
  ServeUntilStdinEnds(port);
  // Calls park themselves again until the end, which the queue does not allow: the process just ends.
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  const std::string api = argc > 1 ? argv[1] : "";
  if (!(api == "callback" && argc == 3) && !(api == "queue" && argc == 5)) {
    std::fprintf(stderr, "usage: api_server callback SIZE | queue SIZE THREADS PARKED\n");
    return 2;
  }
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as embedding-server does
  embedding::bench::Answers answers(std::strtoull(argv[2], nullptr, 10));
  if (api == "callback") return embedding::bench::RunCallback(answers);
  return embedding::bench::RunQueue(answers, std::atoi(argv[3]), std::atoi(argv[4]));
}
