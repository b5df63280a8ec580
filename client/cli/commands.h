// Carries out one command: words -> call -> output.
#pragma once

#include <istream>
#include <ostream>

#include "client/cli/flags.h"

namespace embedding::client {

// Exit codes that are not 64 + a gRPC status.
inline constexpr int kExitOk = 0;
inline constexpr int kExitUnexpected = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDataFile = 3;  // convert, inspect
inline constexpr int kExitNotServing = 4;
inline constexpr int kExitInterrupted = 130;

// Data goes to out, everything else to err. Gives the exit code: 0; 1 if out fails; 2 for words that cannot be read; 4
// for health that is not SERVING; 64 + N for a call that ended with gRPC status N.
int RunCommand(const Command& command, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace embedding::client
