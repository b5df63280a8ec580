// What a person is told when a call fails.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/client_options.h"

namespace embedding::client {

// One line such as "NOT_FOUND (KEY_NOT_FOUND): ...", with what to do about it where that is known.
std::string FailureText(const absl::Status& status, const ClientOptions& options);

// 64 + the number of the gRPC status.
int FailureExitCode(const absl::Status& status);

}  // namespace embedding::client
