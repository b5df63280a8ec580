// The layers that settings come from: flag over environment over --config file over default.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/options.h"

namespace embedding {

// What the command line says: per flag (without dashes) its values in their order. Of a setting that is no list the
// last one holds.
using FlagValues = std::map<std::string, std::vector<std::string>>;

// One setting as it came out.
struct Effective {
  std::string flag;
  ValueKind kind = ValueKind::kString;
  std::vector<std::string> values;  // one, unless a list
  std::string origin;               // "flag", "env", "PATH:LINE" or "default"
};

struct Configuration {
  ServerOptions options;
  std::vector<Effective> settings;    // in the order of Settings()
  std::vector<std::string> warnings;  // one line each: variables that no setting knows
};

// environment: "NAME=value" each; of those that begin with EMBEDDING_ an empty one counts as not set. The file is the
// one that --config or EMBEDDING_CONFIG names, if any. INVALID_ARGUMENT names the flag, variable or PATH:LINE, its
// value and what is allowed.
absl::StatusOr<Configuration> Configure(const FlagValues& flags, const std::vector<std::string>& environment);

// The environment of this process.
std::vector<std::string> ProcessEnvironment();

// For people, and for a --config file: `flag = value  # origin` lines.
std::string ConfigurationText(const Configuration& configuration);
// One object: {"flag": {"value": ..., "origin": "..."}, ...}.
std::string ConfigurationJson(const Configuration& configuration);

}  // namespace embedding
