// One LookupStream that carries all calls of a connection as its messages, raw and on a completion queue as
// grpc_transport.h.
//
// A call begins when its message is handed to the library: what waits behind other messages counts. Messages have no
// deadline of their own, and a stream that breaks ends every call under way with its status.
#pragma once

#include <cstdint>
#include <memory>

#include "client/loadtest/answer_checker.h"
#include "client/loadtest/transport.h"
#include "client/loadtest/workload.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"

namespace embedding::loadtest {

// See Transport for the threads.
class StreamTransport : public Transport {
 public:
  // Opens the stream. workload, of Rpc::kLookup, must outlive this; reference may be null, else it must outlive this.
  // slots: 0 .. slots - 1 are used.
  StreamTransport(std::shared_ptr<grpc::Channel> channel, const Workload& workload, const ReferenceTable* reference,
                  int slots);
  // After Next said kClosed, or without any call started.
  ~StreamTransport() override;

  void Prepare(uint32_t slot, uint64_t call, int64_t not_before_ns) override;
  void Start(uint32_t slot) override;
  void FinishSending() override;
  NextResult Next(int64_t until_ns, CallDone* done) override;
  int64_t bytes_sent() const override;

  // What was kept for CheckKept; after the run.
  const AnswerChecker& checker() const;

 private:
  struct Impl;
  void Judge(grpc::ByteBuffer& answer, uint64_t number, CallDone* done);
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding::loadtest
