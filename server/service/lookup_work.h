// One Lookup from its bytes to the bytes of its answer, whoever asked: a call of its own or an item of a stream.
//
// Rows as they are stored go out from where the table holds them, if they are wide, or else are copied from the table
// to the answer in one step. What is computed (pooled, normalised) passes through one row of F32: widen, pool, the
// first `dimensions` columns, normalise, narrow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/service/call.h"
#include "server/service/embedding_service.h"
#include "server/service/lookup_bags.h"
#include "server/service/lookup_request.h"
#include "server/service/reply_writer.h"
#include "server/service/request_body.h"
#include "server/service/snapshot.h"
#include "server/table/gather.h"

namespace embedding {

// Used by one thread at a time: Prepare, then Answer, each once.
class LookupWork {
 public:
  // rpc: Rpc::kLookup, or Rpc::kLookupStream for one item of a stream: a LookupStreamRequest answered by a
  // LookupStreamResponse. body: kept, as its bytes are borrowed until the end. context: copied; what it points to
  // outlives this, which may outlive the stream that it was made for.
  LookupWork(const ServiceContext& context, Rpc rpc, const grpc::ByteBuffer& body)
      : context_(context), rpc_(rpc), body_(body) {}

  // Decodes and checks everything and finds the rows. Errors as embedding.proto lists them for Lookup.
  absl::Status Prepare();
  // Whether Answer takes so long that no polling thread may do it: more than some milliseconds. After Prepare.
  bool runs_long() const { return runs_long_; }
  // Bytes of the answer. After Prepare.
  uint64_t answer_bytes() const { return answer_bytes_; }
  // OUT_OF_RANGE (VALUE_OUT_OF_RANGE), RESOURCE_EXHAUSTED (OVERLOADED), or caller's StoppedStatus within some
  // milliseconds after it is stopped.
  absl::StatusOr<grpc::ByteBuffer> Answer(const Waiting& caller);

 private:
  absl::Status Decode();
  absl::Status Resolve();
  absl::Status CheckPolicies();
  absl::Status ChooseColumns(const EmbeddingTable& table);
  absl::Status ChooseOutput(const EmbeddingTable& table);
  absl::Status MarkRows(const EmbeddingTable& table);
  absl::Status CheckFinite(const EmbeddingTable& table) const;
  absl::Status CheckAnswer();
  uint64_t AnswerBytes(const TensorLayout& layout) const;

  // Everything before the rows, returning the byte behind it.
  uint8_t* WriteHead(uint8_t* to) const;
  // Of rows that are not computed: whether they can go out as they lie in the table, and lie in pieces long enough for
  // that to pay.
  bool RowsMayStay() const;
  grpc::ByteBuffer AnswerByReference(Admission::Ticket ticket) const;
  absl::StatusOr<grpc::ByteBuffer> AnswerByCopy(const Waiting& caller, Admission::Ticket ticket);
  absl::Status WriteRows(const Waiting& caller, std::byte* to);
  absl::Status WriteUnitVectors(const Waiting& caller, std::byte* to);
  absl::Status WriteBags(const Waiting& caller, std::byte* to);
  // Writes floats_ as one vector of the answer. The index of the first column that does not fit, or columns_.
  size_t WriteVector(std::byte* to);
  // The positions that no row stands for: zeros in the answer, or nothing if left_out.
  struct Gaps {
    std::span<const int64_t> positions;
    bool left_out = false;
  };
  Gaps gaps() const;
  absl::Status RowOverflow(size_t position, int64_t column, double value) const;
  absl::Status BagOverflow(int64_t bag, int64_t column, double value, Dtype dtype) const;
  absl::Status ValueOutOfRange(const std::string& what, int64_t column, double value, Dtype dtype,
                               std::vector<std::pair<std::string, std::string>> metadata) const;

  bool in_stream() const { return rpc_ == Rpc::kLookupStream; }
  bool computed() const { return request_.pooling.has_value() || request_.normalize; }
  int64_t num_vectors() const;

  const ServiceContext context_;
  const Rpc rpc_;
  const RequestBody body_;
  LookupRequest request_;
  v1::MissingPolicy policy_ = v1::MISSING_POLICY_ERROR;
  Bags bags_;  // of a pooled request
  SnapshotPtr snapshot_;
  size_t columns_ = 0;  // of the answer
  Dtype output_ = Dtype::kF32;
  TensorLayout layout_;
  size_t vector_bytes_ = 0;  // of the answer
  uint64_t answer_bytes_ = 0;
  bool refers_to_rows_ = false;
  bool runs_long_ = false;
  std::vector<float> floats_;  // [columns_], of what is computed
};

}  // namespace embedding
