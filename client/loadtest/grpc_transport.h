// A connection that carries calls as raw bytes over gRPC's completion queues.
//
// Raw, so that building and parsing messages does not limit the tester. Completion queues, because the callback threads
// of gRPC 1.51 sleep 100 ms when idle.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "client/loadtest/answer_checker.h"
#include "client/loadtest/transport.h"
#include "client/loadtest/workload.h"
#include "grpcpp/channel.h"

namespace embedding::loadtest {

// See Transport for the threads.
class GrpcTransport : public Transport {
 public:
  // workload must outlive this; reference may be null, else it must outlive this. slots: 0 .. slots - 1 are used.
  // deadline: of every call, from when it is due.
  GrpcTransport(std::shared_ptr<grpc::Channel> channel, const Workload& workload, const ReferenceTable* reference,
                int slots, std::chrono::milliseconds deadline);
  // After Next said kClosed, or without any call started.
  ~GrpcTransport() override;

  void Prepare(uint32_t slot, uint64_t call, int64_t not_before_ns) override;
  void Start(uint32_t slot) override;
  void FinishSending() override;
  NextResult Next(int64_t until_ns, CallDone* done) override;
  int64_t bytes_sent() const override;

  // What was kept for CheckKept; after the run.
  const AnswerChecker& checker() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding::loadtest
