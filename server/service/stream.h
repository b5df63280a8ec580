// Streaming calls as their handlers see them: messages in, messages out. Health and reflection are served this way,
// their unary methods too: on the wire a unary call is a stream of one message each way.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"

namespace embedding {

// The caller's end. Thread-safe; never blocks. Does nothing once the stream has ended.
class Stream {
 public:
  virtual ~Stream() = default;
  // Queues a message; messages leave in order.
  virtual void Write(grpc::ByteBuffer message) = 0;
  // Ends the stream after what is queued.
  virtual void Finish(const grpc::Status& status) = 0;
};
using StreamPtr = std::shared_ptr<Stream>;

// What answers one stream; destroyed when the stream has ended. Its methods are called one at a time and must not
// block.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // The next message is read once all answers to this one have left.
  virtual void OnMessage(const grpc::ByteBuffer& message) = 0;
  // The caller sends no more.
  virtual void OnHalfClose() = 0;
};

struct StreamMethod {
  std::string path;  // such as "/grpc.health.v1.Health/Watch"
  std::function<std::unique_ptr<StreamHandler>(StreamPtr)> open;
};

}  // namespace embedding
