#include "server/service/log.h"

#include <fcntl.h>
#include <grpc/support/log.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/exec/mutex.h"
#include "server/service/log_format.h"
#include "server/service/log_queue.h"
#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/sink.h"

namespace embedding {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%eZ %l %v";
constexpr const char* kJsonPattern = R"({"ts":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

// In the order of LogLevel and of spdlog's levels.
constexpr std::array<const char*, 6> kLevelNames = {"trace", "debug", "info", "warning", "error", "critical"};

constexpr size_t kQueueBytes = 4 << 20;
// A longer message is cut: it would push many others out of the queue.
constexpr size_t kMaxMessageBytes = 8192;
constexpr std::chrono::milliseconds kFlushTimeout{1000};

std::unique_ptr<spdlog::formatter> NewFormatter(bool json) {
  return std::make_unique<spdlog::pattern_formatter>(json ? kJsonPattern : kTextPattern,
                                                     spdlog::pattern_time_type::utc);
}

// spdlog's own asynchronous logger joins its thread at exit, which never ends when stderr is a full pipe; hence our
// queue.
class QueueSink final : public spdlog::sinks::sink {
 public:
  explicit QueueSink(LogQueue& queue) : queue_(queue), formatter_(NewFormatter(false)) {}

  void log(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    {
      MutexLock lock(&mutex_);
      formatter_->format(message, line);
    }
    queue_.Push(std::string(line.data(), line.size()));
  }
  void flush() override {}
  void set_pattern(const std::string& pattern) override {
    set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc));
  }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    MutexLock lock(&mutex_);
    formatter_ = std::move(formatter);
  }

 private:
  LogQueue& queue_;
  Mutex mutex_;
  std::unique_ptr<spdlog::formatter> formatter_ ABSL_GUARDED_BY(mutex_);
};

struct Logger {
  Logger()
      : queue(
            STDERR_FILENO, kQueueBytes, [this](int64_t lines) { return DropNotice(lines); },
            [this](int64_t lines) { Count([lines](Metrics& m) { m.OnLogDropped(lines); }); }),
        sink(std::make_shared<QueueSink>(queue)),
        spdlogger("", sink) {
    spdlogger.set_level(spdlog::level::info);
  }

  std::string Format(absl::string_view message, std::initializer_list<LogField> fields) const {
    return json ? FormatJson(message, fields) : FormatText(message, fields);
  }
  // A whole line, past the queue.
  std::string DropNotice(int64_t dropped) const {
    const std::string text = Format("log lines dropped, their reader is too slow", {{"lines", dropped}});
    spdlog::memory_buf_t line;
    NewFormatter(json)->format(spdlog::details::log_msg("", spdlog::level::warn, text), line);
    return std::string(line.data(), line.size());
  }

  // Under the lock, so that nobody still counts when InitLogging has let go of the metrics.
  template <typename Counting>
  void Count(Counting counting) {
    MutexLock lock(&metrics_mutex);
    if (metrics != nullptr) counting(*metrics);
  }

  std::atomic<bool> json{false};
  Mutex metrics_mutex;
  Metrics* metrics ABSL_GUARDED_BY(metrics_mutex) = nullptr;
  LogQueue queue;
  std::shared_ptr<QueueSink> sink;
  spdlog::logger spdlogger;
};

// Never destroyed: other threads may log until the process is gone.
Logger& TheLogger() {
  static auto* const logger = new Logger;
  return *logger;
}

// gRPC's errors are mostly about one peer or one call, hence a warning; what it tells of itself is for debugging.
void LogGrpcMessage(gpr_log_func_args* args) {
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : args->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kDebug
                                                                   : LogLevel::kTrace;
  Log(level, args->message, {{"component", "grpc"}, {"source", absl::StrCat(args->file, ":", args->line)}});
}

gpr_log_severity GrpcSeverityFor(LogLevel level) {
  if (level == LogLevel::kTrace) return GPR_LOG_SEVERITY_DEBUG;
  return level == LogLevel::kDebug ? GPR_LOG_SEVERITY_INFO : GPR_LOG_SEVERITY_ERROR;
}

// Whoever starts the process with 0, 1 or 2 closed would have lines written into the first socket or file that gets the
// number.
void KeepStandardDescriptorsTaken() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
      // The lowest free number is taken, which is fd.
      if (open("/dev/null", O_RDWR) == -1) return;
    }
  }
}

}  // namespace

LogField::LogField(absl::string_view k, double v) : key(k), quoted(!std::isfinite(v)) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", v);
  value = text;
}

absl::Status InitLogging(absl::string_view format, absl::string_view level, Metrics* metrics) {
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError(absl::StrCat("log format is \"", format, "\", allowed are text and json"));
  }
  const auto* found = std::find(kLevelNames.begin(), kLevelNames.end(), level);
  if (found == kLevelNames.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("log level is \"", level, "\", allowed are trace, debug, info, warning, error and critical"));
  }
  const auto chosen = static_cast<LogLevel>(found - kLevelNames.begin());
  KeepStandardDescriptorsTaken();
  Logger& logger = TheLogger();
  logger.json = format == "json";
  {
    MutexLock lock(&logger.metrics_mutex);
    logger.metrics = metrics;
  }
  logger.sink->set_formatter(NewFormatter(logger.json));
  logger.spdlogger.set_level(static_cast<spdlog::level::level_enum>(chosen));
  gpr_set_log_verbosity(GrpcSeverityFor(chosen));
  gpr_set_log_function(&LogGrpcMessage);
  return absl::OkStatus();
}

void FlushLogging() { TheLogger().queue.Flush(kFlushTimeout); }

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields) {
  Logger& logger = TheLogger();
  const auto spdlog_level = static_cast<spdlog::level::level_enum>(level);
  if (!logger.spdlogger.should_log(spdlog_level)) return;
  logger.Count([level](Metrics& metrics) { metrics.OnLogMessage(kLevelNames[static_cast<size_t>(level)]); });
  std::string text;
  if (message.size() > kMaxMessageBytes) {
    text = logger.Format(absl::StrCat(message.substr(0, kMaxMessageBytes), "..."), fields);
  } else {
    text = logger.Format(message, fields);
  }
  logger.spdlogger.log(spdlog_level, spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace embedding
