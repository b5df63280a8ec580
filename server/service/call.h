// One unary call as the handlers see it: bytes in, bytes or an error out. The transport behind it is rpc_server.h;
// tests put a fake one there.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/service/metrics.h"

namespace embedding {

// Somebody who waits for work to be done. Thread-safe.
class Waiting {
 public:
  // True once the caller has gone or the deadline is over. Cheap: polled between blocks of work.
  virtual bool stopped() const = 0;
  // DEADLINE_EXCEEDED or CANCELLED, with the message that says which.
  virtual absl::Status StoppedStatus() const = 0;

 protected:
  ~Waiting() = default;
};

// Thread-safe after construction. Exactly one of Reply and Fail is called, once, from any thread.
class Call : public Waiting {
 public:
  virtual ~Call() = default;

  // The request's body, valid until Reply or Fail.
  virtual const grpc::ByteBuffer& request() const = 0;
  // When the call's time is over: its own deadline or the server's maximum, whichever is earlier.
  virtual std::chrono::steady_clock::time_point deadline() const = 0;
  // Ends the call well.
  virtual void Reply(grpc::ByteBuffer body) = 0;
  // Ends the call with an error, details included (status_codec.h). Where stopped() is the reason, `status` is what
  // StoppedStatus() gives.
  virtual void Fail(const absl::Status& status) = 0;
};

using CallPtr = std::shared_ptr<Call>;

// One rpc: its full name and what answers it. handle is called on a polling thread and must not block; long work goes
// to the worker pool and ends the call from there.
struct RpcMethod {
  std::string path;  // such as "/embedding.v1.EmbeddingService/Lookup"
  Rpc rpc;           // its index in the metrics
  std::function<void(CallPtr)> handle;
};

}  // namespace embedding
