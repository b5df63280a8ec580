// The transport: raw methods on completion queues.
//
// Raw, because a Lookup's answer is written once, straight into the slice that goes out. Completion queues, because
// they cost less than the callback API and leave the number of threads to us. Few calls are parked, because gRPC 1.51,
// built with asserts, searches all outstanding tags of a queue at each completion. Figures: docs/adr/0004.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "grpcpp/server_builder.h"
#include "server/service/call.h"
#include "server/service/limits.h"
#include "server/service/metrics.h"
#include "server/service/stream.h"

namespace embedding {

// How many threads poll where nothing is said, of a process that may use `threads` CPUs (>= 1): half of them, rounded
// up. Threads that share a queue wake each other for each event, and take CPU time from clients on the same machine:
// with two CPUs for server and clients together one thread answers 1.1 to 1.4 times the lookups that two do, for 0.7 to
// 0.87 of the CPU time. A machine that serves lookups alone to clients elsewhere may want more.
inline int PollingThreadsFor(int threads) { return (threads + 1) / 2; }

class RpcServer {
 public:
  // methods: unary; streams: counted where they name an rpc, as those of health and reflection do not. num_threads:
  // polling threads, >= 1. metrics outlives this.
  RpcServer(std::vector<RpcMethod> methods, RequestLimits limits, Metrics& metrics, int num_threads,
            std::vector<StreamMethod> streams = {});
  // Joins, if nobody has.
  ~RpcServer();

  // Adds services and queues to a builder, before BuildAndStart.
  void Register(grpc::ServerBuilder& builder);
  // Parks the first calls and starts polling, after BuildAndStart.
  void Start();
  // Calls that reached a handler and are not answered yet, counted streams among them.
  int64_t in_flight() const;
  // Ends every open stream, and each that opens later, with UNAVAILABLE, after answering what it has read, and begins
  // to count apart the calls that arrive from now on. Before grpc::Server::Shutdown, which would otherwise wait for
  // callers who watch or keep a stream at hand.
  void BeginDrain();
  // Calls that reached a handler before BeginDrain and whose answers the library has not taken yet.
  int64_t undrained_calls() const;
  // Ends the queues and joins the threads; between the grpc::Server's Shutdown and its destruction, since the library
  // keeps calls of its own in the queues. Every call that reached a handler is answered by then: waits for handlers
  // that still run.
  void Join();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding
