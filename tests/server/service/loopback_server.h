// Methods behind a loopback port, to be spoken to by gRPC's own client.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "server/service/rpc_server.h"

namespace embedding::testing {

class LoopbackServer {
 public:
  // Serves from now on, on two polling threads.
  LoopbackServer(std::vector<RpcMethod> methods, std::vector<StreamMethod> streams, const RequestLimits& limits,
                 Metrics& metrics)
      : rpc_(std::move(methods), limits, metrics, 2, std::move(streams)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    rpc_.Register(builder);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    if (server_ == nullptr) return;
    rpc_.Start();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~LoopbackServer() { Stop(std::chrono::seconds(60)); }

  RpcServer& rpc() { return rpc_; }

  // With a connection of its own, and no limit on answers.
  std::shared_ptr<grpc::Channel> NewChannel(grpc::ChannelArguments arguments = {}) const {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  }

  // Drains, and ends the calls that are open after the timeout; again: does nothing.
  void Stop(std::chrono::milliseconds timeout) {
    if (server_ == nullptr) return;
    rpc_.BeginDrain();
    server_->Shutdown(std::chrono::system_clock::now() + timeout);
    rpc_.Join();
    EXPECT_EQ(rpc_.in_flight(), 0);
    EXPECT_EQ(rpc_.undrained_calls(), 0);
    server_.reset();
  }

 private:
  RpcServer rpc_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace embedding::testing
