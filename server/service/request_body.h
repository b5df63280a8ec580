// A request's bytes in one piece, and as a message.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
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

// The message that a body holds, parsed by protobuf. INVALID_ARGUMENT (MALFORMED).
inline absl::Status ParseBody(const RequestBody& request, google::protobuf::MessageLite* message) {
  if (request.readable() && message->ParseFromArray(request.bytes().data(), static_cast<int>(request.bytes().size()))) {
    return absl::OkStatus();
  }
  return MalformedRequest(message->GetTypeName(), "broken protobuf encoding, or a string that is not UTF-8");
}
inline absl::Status ParseRequest(const grpc::ByteBuffer& body, google::protobuf::MessageLite* message) {
  return ParseBody(RequestBody(body), message);
}

}  // namespace embedding
