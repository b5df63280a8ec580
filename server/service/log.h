// One structured line per event, on stderr.
//
// text: 2026-01-31T12:00:00.123Z info table loaded name=words rows=10000. json: one object per line with ts, level, msg and
// the fields. Lines go through a bounded queue to a writer thread: a full pipe or disk stalls nothing, lines are dropped
// and counted then. gRPC's own messages come the same way.
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
    requires std::is_integral_v<T>
  LogField(absl::string_view k, T v) : key(k), value(std::to_string(v)), quoted(false) {}

  std::string key;
  std::string value;  // escaped when written
  bool quoted;        // false: a number or boolean
};

// Sets format ("text" or "json") and level ("trace" ... "critical") for the process and routes gRPC's messages here; before
// it, text at info. metrics (may be null) counts every line and must outlive the last.
absl::Status InitLogging(absl::string_view format, absl::string_view level, Metrics* metrics);
// Writes out what is queued; the last call of main. Waits at most a second for a reader that does not read.
void FlushLogging();

// Thread-safe; never blocks.
void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace embedding
