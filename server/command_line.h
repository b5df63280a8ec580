// The command line: which command, which flags.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace embedding {

struct CommandLine {
  enum class Command { kServe, kConfig, kHealth, kHelp, kVersion };
  Command command = Command::kServe;
  FlagValues flags;                   // as given, "config" among them
  bool json = false;                  // config --json
  std::string health_address;         // health --address; empty: where the server of this configuration listens
  std::string health_service;         // health --service
  std::string health_timeout = "1s";  // health --timeout
  std::string help;                   // what --help prints, of the command that it stands with
};

// arguments: without the program's name. INVALID_ARGUMENT: one line that says what is wrong and, for an unknown flag or
// command, which one may have been meant.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace embedding
