// flags -> ServerOptions, signals, exit code.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/build_info.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/exec/worker_pool.h"
#include "server/health_probe.h"
#include "server/process.h"
#include "server/server.h"
#include "server/service/log.h"
#include "server/values.h"

namespace embedding {
namespace {

enum ExitCode { kOk = 0, kUnexpected = 1, kUsage = 2, kDataFile = 3, kInterrupted = 130 };

// Beyond delay and timeout of the drain: for what does not heed them.
constexpr std::chrono::seconds kWatchdogGrace{5};
// timeout(1) and terminals send a signal to the process and to its group: two that come together are one.
constexpr std::chrono::milliseconds kOneSignal{500};
// For giving everything back after the drain: gRPC may wait longer, for a peer that has stopped reading.
constexpr std::chrono::seconds kEndGrace{1};

constexpr char kNoTables[] =
    "no table to serve: give at least one as --table NAME=PATH[,key=value...], such as --table "
    "words=deploy/sample/words.safetensors,vocab=words.vocab.txt (or EMBEDDING_TABLE, or table = [\"...\"] in a "
    "--config file); see --help";

int Complain(const absl::Status& status, ExitCode code) {
  std::fprintf(stderr, "embedding-server: %s\n", std::string(status.message()).c_str());
  return code;
}

// Leaves at once, whatever other threads do.
[[noreturn]] void LeaveAtOnce(ExitCode code) {
  FlushLogging();
  _exit(code);
}

void LogConfiguration(const Configuration& configuration) {
  for (const std::string& warning : configuration.warnings) Log(LogLevel::kWarning, warning);
  for (const Effective& setting : configuration.settings) {
    if (setting.origin == "default") continue;
    for (const std::string& value : setting.values) {
      Log(LogLevel::kInfo, "setting", {{"name", setting.flag}, {"value", value}, {"origin", setting.origin}});
    }
  }
}

// A package or an image may come with settings that serve its sample, so that it answers at once. Said loudly: who
// forgot to name a table of their own would get right answers about the wrong rows.
void WarnOfSample(const ServerOptions& options) {
  for (const TableOptions& table : options.tables) {
    if (!absl::StrContains(table.path, "/share/embedding-server/sample/")) continue;
    Log(LogLevel::kWarning, "serving the sample table that comes with the program: give --table or EMBEDDING_TABLE",
        {{"table", table.name}, {"path", table.path}});
  }
}

// Serves until a signal; the tables are loaded and the drain is done beside the loop, so that it hears every signal.
int Serve(const Configuration& configuration) {
  StopWatchingLockOrder();
  ProcessEvents events;
  RaiseDescriptorLimit();
  if (absl::Status s = InitLogging(configuration.options.log_format, configuration.options.log_level, nullptr);
      !s.ok()) {
    return Complain(s, kUsage);
  }
  LogConfiguration(configuration);
  WarnOfSample(configuration.options);
  absl::StatusOr<std::unique_ptr<Server>> started = Server::Start(configuration.options);
  if (!started.ok()) {
    FlushLogging();
    return Complain(started.status(), kUsage);
  }
  Server& server = **started;

  std::atomic<bool> loaded{false}, drained{false}, gone{false};
  absl::Status load_status;  // written before loaded
  WorkerPool background(2);
  background.Submit(
      1, [&](int) { load_status = server.Load(); },
      [&] {
        loaded.store(true);
        events.Notify();
      });

  bool draining = false;
  std::chrono::steady_clock::time_point second_counts;
  std::optional<std::chrono::steady_clock::time_point> watchdog;
  while (!drained.load()) {
    switch (events.Wait(watchdog)) {
      case ProcessEvents::Event::kReload:
        if (!draining) server.Reload();
        break;
      case ProcessEvents::Event::kSignal:
        if (draining) {
          if (std::chrono::steady_clock::now() < second_counts) break;
          Log(LogLevel::kWarning, "second signal: ending at once");
          LeaveAtOnce(kInterrupted);
        }
        draining = true;
        second_counts = std::chrono::steady_clock::now() + kOneSignal;
        watchdog = std::chrono::steady_clock::now() + configuration.options.drain_delay +
                   configuration.options.drain_timeout + kWatchdogGrace;
        background.Submit(
            1, [&](int) { server.Drain(); },
            [&] {
              drained.store(true);
              events.Notify();
            });
        break;
      case ProcessEvents::Event::kNotified:
        if (loaded.load() && !load_status.ok() && !absl::IsCancelled(load_status)) {
          Log(LogLevel::kCritical, "table refused", {{"reason", std::string(load_status.message())}});
          LeaveAtOnce(kDataFile);
        }
        break;
      case ProcessEvents::Event::kTimeout:
        Log(LogLevel::kCritical, "calls did not end in time: ending at once");
        LeaveAtOnce(kUnexpected);
    }
  }
  // A table of a form whose reading does not stop between blocks: nobody waits for it.
  if (!loaded.load()) LeaveAtOnce(kOk);

  background.Submit(
      1, [&](int) { started->reset(); },
      [&] {
        gone.store(true);
        events.Notify();
      });
  watchdog = std::chrono::steady_clock::now() + kEndGrace;
  while (!gone.load()) {
    // All calls are over, so a further signal asks for no more than this either.
    const ProcessEvents::Event event = events.Wait(watchdog);
    if (event == ProcessEvents::Event::kSignal || event == ProcessEvents::Event::kTimeout) LeaveAtOnce(kOk);
  }
  return kOk;
}

int PrintVersion() {
  const BuildInfo build = ThisBuild();
  std::printf("embedding-server %s (%s) %s simd=%s\n", build.version.c_str(), build.revision.c_str(),
              build.compiler.c_str(), build.simd.c_str());
  return kOk;
}

int PrintConfiguration(const Configuration& configuration, bool json) {
  for (const std::string& warning : configuration.warnings)
    std::fprintf(stderr, "embedding-server: %s\n", warning.c_str());
  std::fputs((json ? ConfigurationJson(configuration) : ConfigurationText(configuration)).c_str(), stdout);
  return kOk;
}

int Probe(const CommandLine& line, const Configuration& configuration) {
  const absl::StatusOr<std::chrono::milliseconds> timeout =
      ParseDuration(line.health_timeout, std::chrono::milliseconds(1), std::chrono::hours(1));
  if (!timeout.ok()) {
    return Complain(absl::InvalidArgumentError(absl::StrCat("--timeout is '", line.health_timeout,
                                                            "': ", std::string(timeout.status().message()))),
                    kUsage);
  }
  const std::string address =
      line.health_address.empty() ? ReachableAddress(configuration.options.grpc_address) : line.health_address;
  const ProbeResult result = ProbeHealth(address, line.health_service, *timeout);
  std::fprintf(result.exit_code >= 64 ? stderr : stdout, "%s\n", result.text.c_str());
  return result.exit_code;
}

int Main(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(arguments);
  if (!line.ok()) return Complain(line.status(), kUsage);
  if (line->command == CommandLine::Command::kHelp) {
    std::fputs(line->help.c_str(), stdout);
    return kOk;
  }
  if (line->command == CommandLine::Command::kVersion) return PrintVersion();

  const absl::StatusOr<Configuration> configuration = Configure(line->flags, ProcessEnvironment());
  if (!configuration.ok()) return Complain(configuration.status(), kUsage);
  if (line->command == CommandLine::Command::kConfig) return PrintConfiguration(*configuration, line->json);
  if (line->command == CommandLine::Command::kHealth) return Probe(*line, *configuration);
  // With a folder to load from, tables may come later.
  if (configuration->options.tables.empty() && configuration->options.table_root.empty()) {
    return Complain(absl::InvalidArgumentError(kNoTables), kUsage);
  }
  return Serve(*configuration);
}

}  // namespace
}  // namespace embedding

int main(int argc, char** argv) {
  const int code = embedding::Main({argv + (argc > 0 ? 1 : 0), argv + argc});
  embedding::FlushLogging();
  return code;
}
