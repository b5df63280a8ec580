// An embedding server small enough to be right by inspection, with faults on demand.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/loadtest/reference.h"
#include "embedding/v1/embedding.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace embedding::loadtest {

// Rows of small whole numbers: every sum of products is exact in double, whatever its order.
class FakeTable {
 public:
  static constexpr int64_t kRows = 60;
  static constexpr int64_t kDim = 8;

  static float Element(int64_t id, int64_t column) {
    return static_cast<float>((id * 7 + column * column * 3) % 11 - 5);
  }

  static v1::TableInfo Info() {
    v1::TableInfo info;
    info.set_name("words");
    info.set_serving_version(3);
    info.set_rows(kRows);
    info.set_dim(kDim);
    info.set_dtype(v1::DTYPE_F32);
    info.set_metric(v1::METRIC_COSINE);
    info.set_fingerprint("0123456789abcdef0123456789abcdef");
    return info;
  }

  static float Score(v1::Metric metric, int64_t a, int64_t b) {
    double ab = 0, aa = 0, bb = 0, distance = 0;
    for (int64_t j = 0; j < kDim; ++j) {
      const double x = Element(a, j), y = Element(b, j);
      ab += x * y;
      aa += x * x;
      bb += y * y;
      distance += (x - y) * (x - y);
    }
    if (metric == v1::METRIC_DOT) return static_cast<float>(ab);
    if (metric == v1::METRIC_EUCLIDEAN) return static_cast<float>(std::sqrt(distance));
    if (aa == 0 || bb == 0) return 0;
    return static_cast<float>(std::min(1.0, std::max(-1.0, ab / (std::sqrt(aa) * std::sqrt(bb)))));
  }
};

enum class Fault {
  kNone,
  kSwappedRows,    // Lookup: two rows change places
  kOtherVersion,   // Lookup: the stamp changes after the reference was fetched
  kShortRow,       // Lookup: the last byte is missing
  kWrongScore,     // a score is off by one unit in the last place
  kMissedClosest,  // NearestNeighbour: the closest row is left out
  kUnordered,      // NearestNeighbour: two results change places
  kUnavailable,    // every call but those of the reference fails
  kErrorItem,      // LookupStream: the second message is answered by an error
  kExtraAnswer,    // LookupStream: the second message is answered twice
  kGarbledAnswer,  // LookupStream: the second answer holds neither rows nor an error
  kEndsEarly,      // LookupStream: ends with OK after two answers
  kBreaks,         // LookupStream: ends with UNAVAILABLE after two answers
};

// Serves FakeTable on a port of 127.0.0.1 that the system chooses. A batch of one id is always answered right, since
// that is how the tester fetches its reference; faults hit larger batches.
class FakeServer : public v1::EmbeddingService::Service, public v1::TableService::Service {
 public:
  explicit FakeServer(Fault fault = Fault::kNone) : fault_(fault) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<v1::EmbeddingService::Service*>(this));
    builder.RegisterService(static_cast<v1::TableService::Service*>(this));
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~FakeServer() override { server_->Shutdown(); }

  const std::string& address() const { return address_; }
  int64_t calls() const { return calls_.load(); }
  // Set while calls are handled: stops the tester after this many calls.
  void StopAfter(int64_t calls, std::atomic<bool>* stop) {
    stop_after_ = calls;
    stop_ = stop;
  }
  // The ids of each Lookup, in the order in which they came.
  std::vector<std::vector<int64_t>> lookups() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lookups_;
  }

  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    response->set_version("0.0.1");
    response->set_simd_target("AVX2");
    v1::Limits& limits = *response->mutable_limits();
    limits.set_max_ids(1000);
    limits.set_max_queries(20);
    limits.set_max_k(100);
    limits.set_max_pairs(500);
    limits.set_max_request_bytes(1 << 20);
    limits.set_max_response_bytes(30'000);
    return grpc::Status::OK;
  }

  grpc::Status GetTable(grpc::ServerContext*, const v1::GetTableRequest* request,
                        v1::GetTableResponse* response) override {
    if (!request->table().name().empty() && request->table().name() != "words") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no table \"" + request->table().name() + "\"");
    }
    *response->mutable_table() = FakeTable::Info();
    return grpc::Status::OK;
  }

  grpc::Status Lookup(grpc::ServerContext*, const v1::LookupRequest* request, v1::LookupResponse* response) override {
    const auto& ids = request->rows().ids().values();
    if (grpc::Status status = Begin(ids.size()); !status.ok()) return status;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      lookups_.emplace_back(ids.begin(), ids.end());
    }
    const bool batch = ids.size() > 1;
    Stamp(batch && fault_ == Fault::kOtherVersion ? 4 : 3, response->mutable_table());
    v1::Tensor& tensor = *response->mutable_embeddings();
    tensor.set_dtype(v1::DTYPE_F32);
    tensor.add_shape(ids.size());
    tensor.add_shape(FakeTable::kDim);
    for (const int64_t id : ids) {
      for (int64_t j = 0; j < FakeTable::kDim; ++j) Append(FakeTable::Element(id, j), tensor.mutable_data());
    }
    std::string& data = *tensor.mutable_data();
    const size_t row_bytes = FakeTable::kDim * 4;
    if (batch && fault_ == Fault::kSwappedRows) {
      std::swap_ranges(data.begin(), data.begin() + row_bytes, data.begin() + row_bytes);
    }
    if (batch && fault_ == Fault::kShortRow) data.pop_back();
    return grpc::Status::OK;
  }

  // Each message as a Lookup.
  grpc::Status LookupStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::LookupStreamResponse, v1::LookupStreamRequest>* stream) override {
    v1::LookupStreamRequest request;
    for (int item = 1; stream->Read(&request); ++item) {
      v1::LookupStreamResponse response;
      const grpc::Status status = Lookup(context, &request.lookup(), response.mutable_lookup());
      const bool second = item == 2;
      if (!status.ok() || (second && fault_ == Fault::kErrorItem)) {
        response.mutable_error()->set_code(status.ok() ? grpc::StatusCode::OUT_OF_RANGE : status.error_code());
        response.mutable_error()->set_message(status.ok() ? "ids[0] is 60, table has 60 rows" : status.error_message());
      }
      if (second && fault_ == Fault::kGarbledAnswer) response.Clear();
      stream->Write(response);
      if (second && fault_ == Fault::kExtraAnswer) stream->Write(response);
      if (second && fault_ == Fault::kEndsEarly) return grpc::Status::OK;
      if (second && fault_ == Fault::kBreaks) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    }
    return grpc::Status::OK;
  }

  grpc::Status Similarity(grpc::ServerContext*, const v1::SimilarityRequest* request,
                          v1::SimilarityResponse* response) override {
    const auto& left = request->left().rows().ids().values();
    const auto& right = request->right().rows().ids().values();
    if (grpc::Status status = Begin(2); !status.ok()) return status;
    const v1::Metric metric = MetricOf(request->metric());
    Stamp(3, response->mutable_table());
    response->set_metric(metric);
    response->set_higher_is_closer(metric != v1::METRIC_EUCLIDEAN);
    response->mutable_scores()->set_dtype(v1::DTYPE_F32);
    response->mutable_scores()->add_shape(left.size());
    for (int i = 0; i < left.size(); ++i) {
      float score = FakeTable::Score(metric, left[i], right[i]);
      if (fault_ == Fault::kWrongScore) score = std::nextafter(score, 100.0f);
      Append(score, response->mutable_scores()->mutable_data());
    }
    return grpc::Status::OK;
  }

  grpc::Status NearestNeighbour(grpc::ServerContext*, const v1::NearestNeighbourRequest* request,
                                v1::NearestNeighbourResponse* response) override {
    if (grpc::Status status = Begin(2); !status.ok()) return status;
    const v1::Metric metric = MetricOf(request->metric());
    Stamp(3, response->mutable_table());
    response->set_metric(metric);
    response->set_higher_is_closer(metric != v1::METRIC_EUCLIDEAN);
    for (const int64_t query : request->targets().rows().ids().values()) {
      std::vector<std::pair<float, int64_t>> all;  // closest first by the first, then by the second
      for (int64_t id = 0; id < FakeTable::kRows; ++id) {
        const float score = FakeTable::Score(metric, query, id);
        if (id != query) all.emplace_back(metric == v1::METRIC_EUCLIDEAN ? score : -score, id);
      }
      std::sort(all.begin(), all.end());
      if (fault_ == Fault::kMissedClosest) all.erase(all.begin());
      if (fault_ == Fault::kUnordered) std::swap(all[0], all[2]);
      all.resize(std::min<size_t>(all.size(), request->k()));
      v1::Neighbours& result = *response->add_results();
      for (const auto& [order, id] : all) {
        const float score = FakeTable::Score(metric, query, id);
        result.add_ids(id);
        result.add_scores(fault_ == Fault::kWrongScore && result.scores_size() == 0 ? std::nextafter(score, 100.0f)
                                                                                    : score);
      }
    }
    return grpc::Status::OK;
  }

 private:
  static v1::Metric MetricOf(v1::Metric asked) { return asked == v1::METRIC_UNSPECIFIED ? v1::METRIC_COSINE : asked; }
  static void Append(float value, std::string* data) {
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    data->append(bytes, 4);
  }
  static void Stamp(uint64_t version, v1::TableStamp* stamp) {
    stamp->set_name("words");
    stamp->set_version(version);
    stamp->set_fingerprint(FakeTable::Info().fingerprint());
  }
  grpc::Status Begin(int batch) {
    const int64_t calls = ++calls_;
    if (stop_ != nullptr && calls >= stop_after_) stop_->store(true);
    if (batch > 1 && fault_ == Fault::kUnavailable) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    return grpc::Status::OK;
  }

  const Fault fault_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int64_t> calls_{0};
  int64_t stop_after_ = 0;
  std::atomic<bool>* stop_ = nullptr;
  std::mutex mutex_;
  std::vector<std::vector<int64_t>> lookups_;
};

// All rows of FakeTable, as a tester fetches them.
inline ReferenceTable FakeReference() {
  ReferenceTable reference(FakeTable::Info());
  std::string error;
  FakeServer server;
  for (int64_t id = 0; id < FakeTable::kRows; ++id) {
    v1::LookupRequest request;
    request.mutable_rows()->mutable_ids()->add_values(id);
    v1::LookupResponse response;
    EXPECT_TRUE(server.Lookup(nullptr, &request, &response).ok());
    EXPECT_TRUE(reference.SetRow(id, response, &error)) << error;
  }
  return reference;
}

}  // namespace embedding::loadtest
