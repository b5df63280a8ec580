// Our service, and beside it in the same process, on the same threads and queue, the floor: a raw method that answers
// with bytes made at start, as many as a Lookup's, which cycle through as much memory as the table has. What a Lookup
// costs above it is what this project adds to the transport.
//
//   floor_server ROWS DIM BATCH [THREADS [REFERENCED_PIECE_BYTES]]
//
// THREADS: those that poll; 0 = as embedding-server has by itself. REFERENCED_PIECE_BYTES: instead of that of
// row_references.h. Prints "ADDRESS" of the port and serves until stdin ends. Floor: /embedding.bench.Floor/Lookup, any
// request.
#include <sys/types.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/exec/cpu_count.h"
#include "server/service/admission.h"
#include "server/service/embedding_service.h"
#include "server/service/rpc_server.h"
#include "server/service/snapshot.h"
#include "server/table/embedding_table.h"
#include "tests/bench/bench_program.h"
#include "tests/bench/bench_table.h"

namespace embedding::bench {
namespace {

std::vector<grpc::ByteBuffer> MakeFloorAnswers(int64_t num_rows, int64_t dim, int64_t batch) {
  // Tags, lengths and stamp of a LookupResponse are some 80 bytes.
  const auto size = static_cast<size_t>(batch * dim) * sizeof(float) + 80;
  const size_t count = static_cast<size_t>(num_rows * dim) * sizeof(float) / size + 1;
  std::vector<grpc::ByteBuffer> answers;
  for (size_t i = 0; i < count; ++i) {
    grpc::Slice slice(size);
    auto* bytes = const_cast<uint8_t*>(slice.begin());
    for (size_t j = 0; j < size; ++j) bytes[j] = static_cast<uint8_t>(i + j);
    answers.emplace_back(&slice, 1);
  }
  return answers;
}

int Run(int64_t num_rows, int64_t dim, int64_t batch, int threads, size_t referenced_piece_bytes) {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = "bench";
  {
    std::vector<float> rows(static_cast<size_t>(num_rows * dim));
    for (int64_t row = 0; row < num_rows; ++row) FillRow(row, dim, rows.data() + row * dim);
    snapshot->table = TableFromMemory("bench", Dtype::kF32, num_rows, dim, rows.data());
  }
  TableRegistry registry({"bench"});
  registry.Publish(snapshot);
  WorkerPool pool(AvailableCpus());
  Metrics metrics({});
  Admission admission({});
  ServiceContext context;
  context.registry = &registry;
  context.pool = &pool;
  context.metrics = &metrics;
  context.admission = &admission;
  context.referenced_piece_bytes = referenced_piece_bytes;
  std::vector<RpcMethod> methods = EmbeddingServiceMethods(context);
  const std::vector<grpc::ByteBuffer> answers = MakeFloorAnswers(num_rows, dim, batch);
  std::atomic<size_t> next{0};
  methods.push_back({"/embedding.bench.Floor/Lookup", Rpc::kLookup, [&](const CallPtr& call) {
                       call->Reply(answers[next.fetch_add(1, std::memory_order_relaxed) % answers.size()]);
                     }});
  RpcServer rpc(std::move(methods), context.limits, metrics, threads, EmbeddingServiceStreams(context));
  grpc::ServerBuilder builder;
  rpc.Register(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return EXIT_FAILURE;
  rpc.Start();
  ServeUntilStdinEnds(port);
  server->Shutdown(std::chrono::system_clock::now());
  rpc.Join();
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace embedding::bench

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: floor_server ROWS DIM BATCH [THREADS [REFERENCED_PIECE_BYTES]]\n");
    return 2;
  }
  // As embedding-server does.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const int threads = argc > 4 ? std::atoi(argv[4]) : 0;
  const size_t referenced = argc > 5 ? std::strtoull(argv[5], nullptr, 10) : embedding::kReferencedPieceBytes;
  return embedding::bench::Run(std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]),
                               threads > 0 ? threads : embedding::PollingThreadsFor(embedding::AvailableCpus()),
                               referenced);
}
