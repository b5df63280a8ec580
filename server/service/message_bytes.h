// Protobuf messages <-> what goes over the wire, for methods where speed does not count.
#pragma once

#include <string>

#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace embedding {

inline grpc::ByteBuffer ToBytes(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// False if the bytes are not such a message.
inline bool FromBytes(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::ByteBuffer unread = bytes;  // shares the slices
  grpc::ProtoBufferReader reader(&unread);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

}  // namespace embedding
