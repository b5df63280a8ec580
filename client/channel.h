// Channels set up as this project's clients want them.
#pragma once

#include <memory>

#include "client/client_options.h"
#include "grpcpp/channel.h"

namespace embedding {

// A channel with its own connection (channels to one address do not share it), receive limit of the options, no HTTP
// proxy. Thread-safe to use; connects on first use.
std::shared_ptr<grpc::Channel> CreateClientChannel(const ClientOptions& options);

}  // namespace embedding
