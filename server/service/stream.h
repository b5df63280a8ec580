// Streaming calls as their handlers see them: messages in, messages out. Health and reflection are served this way,
// their unary methods too: on the wire a unary call is a stream of one message each way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "server/service/call.h"

namespace embedding {

// The caller's end. Thread-safe; never blocks. Does nothing once the stream has ended. stopped() is true once the
// caller has gone or the stream's deadline is over.
class Stream : public Waiting {
 public:
  virtual ~Stream() = default;
  // Queues a message; messages leave in order.
  virtual void Write(grpc::ByteBuffer message) = 0;
  // Ends the stream after what is queued.
  virtual void Finish(const grpc::Status& status) = 0;
  // Between the two no message is read and the stream does not end by a drain: for a message whose answer comes later,
  // from another thread. Pause: only within OnMessage.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};
using StreamPtr = std::shared_ptr<Stream>;

// What answers one stream; destroyed when the stream has ended. Its methods are called one at a time and must not
// block.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // The next message is read once there is room for its answers: StreamMethod::read_ahead_bytes.
  virtual void OnMessage(const grpc::ByteBuffer& message) = 0;
  // The caller sends no more.
  virtual void OnHalfClose() = 0;
};

struct StreamMethod {
  std::string path;  // such as "/grpc.health.v1.Health/Watch"
  std::function<std::unique_ptr<StreamHandler>(StreamPtr)> open;
  // Counts the streams in the metrics; unset: not counted, as health and reflection.
  std::optional<Rpc> rpc = std::nullopt;
  // Messages are read as long as the answers that wait to leave are fewer bytes than this. So a caller who does not
  // read holds this much and one answer more. 0: the next message is read when nothing waits.
  int64_t read_ahead_bytes = 0;
};

}  // namespace embedding
