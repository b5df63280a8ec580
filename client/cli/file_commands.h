// Commands on files, which ask no server: convert and inspect.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace embedding::cli {

struct FileCommandName {
  const char* name;
  const char* summary;
};

inline constexpr FileCommandName kFileCommands[] = {
    {"convert", "Write a table file as .safetensors, .npy or .fbin"},
    {"inspect", "What a server would load from a table file"},
};

// Runs the command if the first word of the arguments (without the program's name) that is neither a flag nor a flag's
// value names one of kFileCommands; nullopt if it names another. Gives the exit code: 0; 1 if output cannot be written;
// 2 wrong usage, also an output file that exists; 3 a file that holds no table, or one that cannot become what was
// asked for. No exception leaves it but std::bad_alloc.
std::optional<int> RunFileCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace embedding::cli
