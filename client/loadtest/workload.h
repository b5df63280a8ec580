// What the calls of a load test ask, and what a right answer looks like.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/loadtest/ids.h"
#include "embedding/v1/embedding.pb.h"

namespace embedding::loadtest {

enum class Rpc { kLookup, kSimilarity, kNeighbours };

struct WorkloadOptions {
  Rpc rpc = Rpc::kLookup;
  std::string table = "";                      // as in TableSpec.name
  int64_t batch_size = 64;                     // ids; pairs of ids; queries (ids)
  int32_t k = 10;                              // of kNeighbours
  v1::Metric metric = v1::METRIC_UNSPECIFIED;  // of kSimilarity and kNeighbours
  bool approximate = false;                    // of kNeighbours
  int32_t effort = 0;                          // of approximate; 0: the server's choice
  IdDistribution ids{};
  uint64_t seed = 1;
  bool stream = false;  // of kLookup: as messages of a LookupStream, one for each connection
};

// The requests of a load test: call number i is always the same one. Immutable, so safe for any number of threads.
class Workload {
 public:
  // table: of the server, rows >= 1.
  Workload(WorkloadOptions options, const v1::TableInfo& table);

  const WorkloadOptions& options() const { return options_; }
  const v1::TableInfo& table() const { return table_; }
  // The metric that answers must name: the one asked for, else the table's.
  v1::Metric metric() const;

  // The ids of a call: [batch_size]; similarity: [2 * batch_size], left ones first. ids is overwritten.
  void IdsOf(uint64_t call, std::vector<int64_t>* ids) const;

  // Path of the method, such as "/embedding.v1.EmbeddingService/Lookup".
  const std::string& method() const { return method_; }

 private:
  const WorkloadOptions options_;
  const v1::TableInfo table_;
  const IdSource ids_;
  const std::string method_;
};

// Writes the request messages of a workload. Keeps its message and memory from call to call, so one per thread.
class RequestWriter {
 public:
  // workload must outlive this.
  explicit RequestWriter(const Workload& workload);

  // Prepares call number `call`; returns the size of its message in bytes.
  size_t Prepare(uint64_t call);
  // Writes the prepared message: out holds that many bytes.
  void Write(uint8_t* out) const;

 private:
  const Workload& workload_;
  std::vector<int64_t> ids_;
  v1::LookupRequest lookup_;
  v1::SimilarityRequest similarity_;
  v1::NearestNeighbourRequest neighbours_;
};

}  // namespace embedding::loadtest
