// embedding-cli: asks an embedding server from the command line, and reads table files as the server does.
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/file_commands.h"
#include "client/cli/flags.h"

namespace {

// Nothing is worth saving: the calls change nothing, and what was printed is complete lines.
extern "C" void EndInterrupted(int) { _exit(embedding::client::kExitInterrupted); }

int Main(const std::vector<std::string>& arguments) {
  if (const std::optional<int> code = embedding::cli::RunFileCommand(arguments, std::cout, std::cerr)) return *code;
  const embedding::client::ParsedLine line = embedding::client::ParseCommandLine(arguments);
  if (!line.command) {
    std::cerr << line.err;
    if (std::cout << line.out << std::flush) return line.exit_code;
    std::cerr << "embedding-cli: stdout could not be written\n";
    return embedding::client::kExitUnexpected;
  }
  return embedding::client::RunCommand(*line.command, std::cin, std::cout, std::cerr);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, EndInterrupted);
  std::signal(SIGTERM, EndInterrupted);
  std::ios::sync_with_stdio(false);
  try {
    return Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {  // memory for a very large batch, at worst
    std::cerr << "embedding-cli: " << error.what() << "\n";
    return embedding::client::kExitUnexpected;
  }
}
