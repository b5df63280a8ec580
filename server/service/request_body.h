// A request's bytes in one piece.
#pragma once

#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

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

}  // namespace embedding
