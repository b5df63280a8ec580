// What a Lookup's handler costs: from the request's bytes to the answer's slice, 64 random rows of 768 F32 of a table
// of 50,257 rows, against the same rows copied by memcpy into a fresh slice, which every server of such rows must do.
// Not timed: transport, metrics of the transport. Every answer is compared with the table once.
//
//   lookup_benchmark [rounds]
//
// Prints the median of both over interleaved rounds, and the median of their ratio.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "embedding/v1/embedding.pb.h"
#include "server/kernels/kernels.h"
#include "server/service/embedding_service.h"
#include "tests/testing/fake_call.h"

namespace embedding::testing {
namespace {

constexpr int64_t kRows = 50257, kDim = 768, kBatch = 64;
constexpr size_t kRowBytes = kDim * sizeof(float);
constexpr int kCallsPerRound = 2000;

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::time_point from, Clock::time_point to, int calls) {
  return std::chrono::duration<double, std::micro>(to - from).count() / calls;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

int Run(int rounds) {
  std::mt19937_64 random(1);
  std::vector<float> floats(kRows * kDim);
  for (float& value : floats) value = static_cast<float>(random() >> 40);
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = "gpt2";
  snapshot->table = TableFromMemory("gpt2", Dtype::kF32, kRows, kDim, floats.data());
  const EmbeddingTable& table = *snapshot->table;
  TableRegistry registry({"gpt2"});
  registry.Publish(snapshot);
  WorkerPool pool(1);
  Metrics metrics({});
  Admission admission({});
  ServiceContext context;
  context.registry = &registry;
  context.pool = &pool;
  context.metrics = &metrics;
  context.admission = &admission;
  const std::vector<RpcMethod> methods = EmbeddingServiceMethods(context);
  const RpcMethod& lookup = methods.front();

  // Different rows for each call, so that they come from memory and not from a cache.
  std::vector<std::vector<int64_t>> ids(kCallsPerRound, std::vector<int64_t>(kBatch));
  std::vector<grpc::ByteBuffer> bodies;
  for (std::vector<int64_t>& batch : ids) {
    v1::LookupRequest request;
    for (int64_t& id : batch) {
      id = static_cast<int64_t>(random() % kRows);
      request.mutable_rows()->mutable_ids()->add_values(id);
    }
    bodies.push_back(BodyOf(request.SerializeAsString()));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto call = std::make_shared<FakeCall>(bodies[i]);
    lookup.handle(call);
    v1::LookupResponse response;
    if (!call->status().ok() || !response.ParseFromString(BytesOf(call->TakeReply()))) return EXIT_FAILURE;
    for (size_t r = 0; r < kBatch; ++r) {
      if (std::memcmp(response.embeddings().data().data() + r * kRowBytes, table.row(ids[i][r]), kRowBytes) != 0) {
        std::fprintf(stderr, "call %zu: row %zu differs\n", i, r);
        return EXIT_FAILURE;
      }
    }
  }

  std::vector<double> handler, copy, ratio;
  for (int round = 0; round < rounds; ++round) {
    const Clock::time_point begin = Clock::now();
    for (const std::vector<int64_t>& batch : ids) {
      grpc::Slice slice(kBatch * kRowBytes);
      auto* to = const_cast<uint8_t*>(slice.begin());
      for (size_t r = 0; r < kBatch; ++r) std::memcpy(to + r * kRowBytes, table.row(batch[r]), kRowBytes);
    }
    const Clock::time_point middle = Clock::now();
    for (const grpc::ByteBuffer& body : bodies) lookup.handle(std::make_shared<FakeCall>(body));
    const Clock::time_point end = Clock::now();
    copy.push_back(Microseconds(begin, middle, kCallsPerRound));
    handler.push_back(Microseconds(middle, end, kCallsPerRound));
    ratio.push_back(handler.back() / copy.back());
  }
  std::printf("64 x 768 F32 of %lld rows, SIMD %s, %d rounds of %d calls\n", static_cast<long long>(kRows),
              SimdTargetName(), rounds, kCallsPerRound);
  std::printf("memcpy into a fresh slice  %8.2f us (%.2f GB/s)\n", Median(copy),
              kBatch * kRowBytes / Median(copy) / 1000);
  std::printf("Lookup handler             %8.2f us (%.2f GB/s)\n", Median(handler),
              kBatch * kRowBytes / Median(handler) / 1000);
  std::printf("ratio                      %8.2f\n", Median(ratio));
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace embedding::testing

int main(int argc, char** argv) { return embedding::testing::Run(argc > 1 ? std::atoi(argv[1]) : 21); }
