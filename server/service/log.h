// One structured line per event, on stderr.
//
// text: 2026-01-31T12:00:00.123Z info table loaded name=words rows=10000. json: one object per line with ts, level, msg
// and the fields. Lines go through a bounded queue to a writer thread: a full pipe or disk stalls nothing, lines are
// dropped and counted then. gRPC's own messages come the same way.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/service/metrics.h"

namespace embedding {

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kCritical };

struct LogField {
  LogField(absl::string_view k, absl::string_view v) : key(k), value(v), quoted(true) {}
  LogField(absl::string_view k, const char* v) : LogField(k, absl::string_view(v)) {}
  LogField(absl::string_view k, const std::string& v) : LogField(k, absl::string_view(v)) {}
  LogField(absl::string_view k, double v);
  template <typename T>
  requires std::is_integral_v<T> LogField(absl::string_view k, T v) : key(k), quoted(false) {
    if constexpr (std::is_same_v<T, bool>) {
      value = v ? "true" : "false";
    } else {
      value = std::to_string(v);
    }
  }

  std::string key;
  std::string value;  // escaped when written
  bool quoted;        // false: a number or boolean
};

// Sets format ("text" or "json") and level ("trace" ... "critical") for the process and routes gRPC's messages here:
// its errors as warnings, the rest as debug and trace. Before it, text at info. Opens /dev/null as whichever of stdin,
// stdout and stderr is closed. metrics (may be null) counts every line and must outlive the last; give null to let go
// of it. INVALID_ARGUMENT: another format or level. Called before other threads log.
absl::Status InitLogging(absl::string_view format, absl::string_view level, Metrics* metrics);
// Returns when what is queued is written, the last call of main. Waits at most a second for a reader that does not
// read.
void FlushLogging();

// Thread-safe; never waits for whoever reads stderr. A message over 8 KiB is cut.
void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace embedding
