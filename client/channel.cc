#include "client/channel.h"

#include <algorithm>
#include <limits>

#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace embedding {
namespace {

// A receiver's frame and window sizes: with gRPC's own (16 KiB, 64 KiB) the first large answers arrive in small pieces.
constexpr int kMaxFrameBytes = 1 << 20;
constexpr int kStreamWindowBytes = 4 << 20;
// gRPC waits 1 s before it connects again after a failure, which is longer than all our attempts together.
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 5000;

}  // namespace

std::shared_ptr<grpc::Channel> CreateClientChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(std::clamp<int64_t>(options.max_receive_bytes, 1, std::numeric_limits<int>::max())));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrameBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace embedding
