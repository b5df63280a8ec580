#include "client/loadtest/server_facts.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "proto/status_codec.h"
#include "proto/vector_codec.h"

namespace embedding::loadtest {
namespace {

// Rows fetched at a time: enough to keep the server busy, few enough to be quiet.
constexpr int kFetchesInFlight = 16;

void SetDeadline(const LoadTestOptions& options, grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + options.deadline);
}

absl::Status Failed(const char* what, const LoadTestOptions& options, const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(what, " of ", options.address, " failed: ", status.error_message()));
}

absl::Status OverLimit(const char* flag, int64_t given, int64_t limit, const char* name) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " is ", given, ", the server allows ", limit, " (", name, ")"));
}

// Fetches rows 0, 1, 2, ... into the table, with several calls in flight.
class RowFetcher {
 public:
  RowFetcher(const std::shared_ptr<grpc::Channel>& channel, const LoadTestOptions& options, ReferenceTable& rows)
      : stub_(v1::EmbeddingService::NewStub(channel)), options_(options), rows_(rows), calls_(kFetchesInFlight) {}

  absl::Status Run(const std::atomic<bool>& stop) {
    int in_flight = 0;
    for (size_t i = 0; i < calls_.size() && next_ < rows_.rows(); ++i, ++in_flight) Start(i);
    absl::Status status;
    // After a failure the calls in flight are still waited for: they write into our memory.
    while (in_flight > 0) {
      void* tag = nullptr;
      bool ok = false;
      queue_.Next(&tag, &ok);
      const size_t slot = reinterpret_cast<uintptr_t>(tag);
      if (status.ok()) status = Take(calls_[slot]);
      if (status.ok() && stop.load(std::memory_order_relaxed)) status = absl::CancelledError("interrupted");
      if (status.ok() && next_ < rows_.rows()) {
        Start(slot);
      } else {
        --in_flight;
      }
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
    return status;
  }

 private:
  struct Call {
    int64_t id = 0;
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::LookupResponse>> reader;
    v1::LookupResponse answer;
    grpc::Status status;
  };

  void Start(size_t slot) {
    Call& call = calls_[slot];
    call.id = next_++;
    v1::LookupRequest request;
    request.mutable_table()->set_name(options_.workload.table);
    request.mutable_rows()->mutable_ids()->add_values(call.id);
    call.reader.reset();
    call.context = std::make_unique<grpc::ClientContext>();
    SetDeadline(options_, *call.context);
    call.reader = stub_->PrepareAsyncLookup(call.context.get(), request, &queue_);
    call.reader->StartCall();
    call.reader->Finish(&call.answer, &call.status, reinterpret_cast<void*>(slot));
  }

  absl::Status Take(const Call& call) {
    if (!call.status.ok()) return Failed("Lookup", options_, call.status);
    std::string error;
    if (!rows_.SetRow(call.id, call.answer, &error)) return absl::InternalError(error);
    return absl::OkStatus();
  }

  const std::unique_ptr<v1::EmbeddingService::Stub> stub_;
  const LoadTestOptions& options_;
  ReferenceTable& rows_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;
  int64_t next_ = 0;
};

}  // namespace

absl::StatusOr<ServerFacts> AskServer(const std::shared_ptr<grpc::Channel>& channel, const LoadTestOptions& options) {
  const std::unique_ptr<v1::TableService::Stub> stub = v1::TableService::NewStub(channel);
  ServerFacts facts;
  grpc::ClientContext info_context;
  SetDeadline(options, info_context);
  grpc::Status status = stub->GetServerInfo(&info_context, v1::GetServerInfoRequest(), &facts.info);
  if (!status.ok()) return Failed("GetServerInfo", options, status);
  v1::GetTableRequest request;
  request.mutable_table()->set_name(options.workload.table);
  v1::GetTableResponse response;
  grpc::ClientContext table_context;
  SetDeadline(options, table_context);
  status = stub->GetTable(&table_context, request, &response);
  if (!status.ok()) return Failed("GetTable", options, status);
  facts.table = std::move(*response.mutable_table());
  return facts;
}

absl::Status CheckLimits(const LoadTestOptions& options, const ServerFacts& facts) {
  const WorkloadOptions& workload = options.workload;
  const v1::Limits& limits = facts.info.limits();
  const int64_t batch = workload.batch_size;
  if (facts.table.rows() < 1) return absl::InvalidArgumentError("the server's table has no rows");
  if (batch > limits.max_ids()) return OverLimit("--batch-size", batch, limits.max_ids(), "max_ids");
  switch (workload.rpc) {
    case Rpc::kLookup: {
      const int64_t row_bytes = facts.table.dim() * static_cast<int64_t>(WireDtypeSize(facts.table.dtype()));
      const int64_t most = limits.max_response_bytes() / std::max<int64_t>(row_bytes, 1);
      if (batch > most) return OverLimit("--batch-size", batch, most, "rows that fit max_response_bytes");
      break;
    }
    case Rpc::kSimilarity:
      if (batch > limits.max_pairs()) return OverLimit("--batch-size", batch, limits.max_pairs(), "max_pairs");
      break;
    case Rpc::kNeighbours:
      if (batch > limits.max_queries()) return OverLimit("--batch-size", batch, limits.max_queries(), "max_queries");
      if (workload.k > limits.max_k()) return OverLimit("--k", workload.k, limits.max_k(), "max_k");
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReferenceTable>> FetchReference(const std::shared_ptr<grpc::Channel>& channel,
                                                               const LoadTestOptions& options,
                                                               const v1::TableInfo& table,
                                                               const std::atomic<bool>& stop) {
  auto rows = std::make_unique<ReferenceTable>(table);
  if (absl::Status status = RowFetcher(channel, options, *rows).Run(stop); !status.ok()) return status;
  return rows;
}

}  // namespace embedding::loadtest
