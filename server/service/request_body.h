// A request's bytes in one piece, and as a message.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/service/field_counts.h"
#include "server/service/request_errors.h"

namespace embedding {

// Shares the body's slice where there is only one, which is so for requests of up to some KiB; joins them otherwise.
// Views of its bytes live as long as it does, whatever becomes of the body. Does not move: short slices hold their
// bytes inside.
class RequestBody {
 public:
  explicit RequestBody(const grpc::ByteBuffer& body) {
    if (!body.Valid()) return;  // as good as empty
    if (!body.TrySingleSlice(&slice_).ok()) readable_ = body.DumpToSingleSlice(&slice_).ok();
  }
  RequestBody(const RequestBody&) = delete;
  RequestBody& operator=(const RequestBody&) = delete;

  // False if the body cannot be read, as when its compression is broken.
  bool readable() const { return readable_; }
  absl::string_view bytes() const {
    return absl::string_view(reinterpret_cast<const char*>(slice_.begin()), slice_.size());
  }

 private:
  grpc::Slice slice_;
  bool readable_ = true;
};

// What is wrong with a request's lists whatever they hold: more values than a limit allows.
using CountsCheck = absl::Status (*)(const FieldCounts& counts, const RequestLimits& limits);

// The message that a body holds, parsed by protobuf once what it holds has been counted. INVALID_ARGUMENT (MALFORMED;
// also for too many parts), or what check has to say.
inline absl::Status ParseRequest(const grpc::ByteBuffer& body, const RequestLimits& limits,
                                 google::protobuf::Message* message, CountsCheck check = nullptr) {
  const RequestBody request(body);
  if (request.readable()) {
    const FieldCounts counts(request.bytes(), *message->GetDescriptor());
    if (check != nullptr) {
      if (absl::Status status = check(counts, limits); !status.ok()) return status;
    }
    if (absl::Status status = CheckParts(counts, limits, message->GetTypeName()); !status.ok()) return status;
  }
  if (request.readable() && message->ParseFromArray(request.bytes().data(), static_cast<int>(request.bytes().size()))) {
    return absl::OkStatus();
  }
  return MalformedRequest(message->GetTypeName(), "broken protobuf encoding, or a string that is not UTF-8");
}

}  // namespace embedding
