// A server with the real wire and a made-up table: small limits that it enforces, and a hook before each answer. Uses
// the generated blocking service and nothing of the real server.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "embedding/v1/embedding.grpc.pb.h"
#include "grpcpp/server.h"

namespace embedding::testing_support {

// Table "made-up": rows x dim, F32, element j of row i is 100 * i + j, the key of row i is "k" and i.
class FakeService {
 public:
  struct Settings {
    int64_t rows = 1000;
    int64_t dim = 3;
    int64_t max_ids = 1000;
    int64_t max_queries = 100;
    int64_t max_k = 100;
    int64_t max_pairs = 10000;
    int64_t max_filter_ids = 10000;
    int64_t max_request_bytes = 1 << 20;
    int64_t max_response_bytes = 1 << 20;
    uint64_t version = 1;
    std::string fingerprint = "aa";
    size_t min_key_bytes = 0;  // keys of neighbours are padded to this length
  };

  // Called with the call's number (0, 1, ... over Lookup, Similarity, NearestNeighbour and ResolveKeys) before it is
  // answered. May change the settings; a status that is not OK is the answer.
  using Hook = std::function<grpc::Status(int call, grpc::ServerContext& context, Settings& settings)>;

  explicit FakeService(Settings settings, Hook hook = nullptr);
  ~FakeService();

  // "127.0.0.1:PORT".
  const std::string& address() const { return address_; }
  int calls() const;
  int info_calls() const;
  int table_calls() const;
  // Elements of each call in turn: ids, pairs or queries.
  std::vector<int64_t> sizes() const;
  v1::NearestNeighbourRequest last_search() const;

 private:
  class Embedding;
  class Tables;
  friend class Embedding;
  friend class Tables;

  // Locks, runs the hook, checks the version; `answer` runs under the lock.
  grpc::Status Answer(grpc::ServerContext& context, const v1::TableSpec& table, v1::TableStamp& stamp, int64_t size,
                      const std::function<grpc::Status()>& answer);

  mutable std::mutex mutex_;
  Settings settings_;
  const Hook hook_;
  int calls_ = 0;
  int info_calls_ = 0;
  int table_calls_ = 0;
  std::vector<int64_t> sizes_;
  v1::NearestNeighbourRequest last_search_;
  std::unique_ptr<Embedding> embedding_;
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace embedding::testing_support
