// grpc.health.v1 from the client's side.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client_options.h"

namespace embedding::client {

// The state of a health service ("" is the server as a whole): "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN" or
// "UNKNOWN". One attempt. NOT_FOUND: no such service.
absl::StatusOr<std::string> CheckHealth(const ClientOptions& options, const std::string& service);

// Calls on_state with the state and then with each change. Gives the error that ended it: DEADLINE_EXCEEDED after
// `duration` if that is given, else when the server goes away.
absl::Status WatchHealth(const ClientOptions& options, const std::string& service,
                         std::optional<std::chrono::milliseconds> duration,
                         absl::FunctionRef<void(const std::string&)> on_state);

}  // namespace embedding::client
