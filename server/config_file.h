// The --config file: a subset of TOML.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace embedding {

struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;  // one, unless a list
  bool is_list = false;
  int line = 0;  // counted from 1, where the key stands
};

// `key = value` lines: values are "strings" with \" \\ \n \t, 'literal strings', whole numbers, true and false, and
// lists of strings in [ ], over several lines if need be; # begins a comment. Tables, dates, floats and multi-line
// strings are not taken. INVALID_ARGUMENT begins with "PATH:LINE: " and says what is wrong; a key may stand once.
absl::StatusOr<std::vector<ConfigEntry>> ParseConfigText(absl::string_view text, const std::string& path);

// INVALID_ARGUMENT also for a file that cannot be read.
absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path);

}  // namespace embedding
