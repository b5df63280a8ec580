// The command-line client against a server in this process.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "client/cli/commands.h"

namespace embedding::testing {

struct Ended {
  int code = 0;
  std::string out;
  std::string err;
};

// As a person would call it, but for --address, which is added.
inline Ended RunCli(const std::string& address, std::vector<std::string> arguments,
                    const std::string& stdin_text = "") {
  arguments.insert(arguments.end(), {"--address", address});
  const client::ParsedLine line = client::ParseCommandLine(arguments);
  if (!line.command) return {line.exit_code, line.out, line.err};
  std::istringstream in(stdin_text);
  std::ostringstream out;
  std::ostringstream err;
  const int code = client::RunCommand(*line.command, in, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace embedding::testing
