// The transport: raw unary methods on completion queues.
//
// Raw, because a Lookup's answer is written once, straight into the slice that goes out. Completion queues, because the
// callback threads of gRPC 1.51 sleep 100 ms when idle. Few calls are parked, because that library, built with asserts,
// searches all outstanding tags of a queue at each completion.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "grpcpp/server_builder.h"
#include "server/service/call.h"
#include "server/service/limits.h"
#include "server/service/metrics.h"

namespace embedding {

class RpcServer {
 public:
  // methods: all rpcs. num_threads: polling threads, >= 1.
  RpcServer(std::vector<RpcMethod> methods, RequestLimits limits, Metrics& metrics, int num_threads);
  // After Shutdown of the grpc::Server.
  ~RpcServer();

  // Adds services and queues to a builder, before BuildAndStart.
  void Register(grpc::ServerBuilder& builder);
  // Parks the first calls and starts polling, after BuildAndStart.
  void Start();
  // Calls that reached a handler and are not answered yet.
  int64_t in_flight() const;
  // Ends the queues and joins the threads, after grpc::Server::Shutdown. Every call that reached a handler is answered by
  // then.
  void Join();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding
