#include "server/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/status_codec.h"
#include "server/nearest_name.h"

namespace embedding {
namespace {

constexpr char kFooter[] =
    "Each flag may also be set by its environment variable or in the --config file; a flag beats the variable, the\n"
    "variable beats the file. EMBEDDING_TABLE separates tables by ';'.\n"
    "SIGTERM and SIGINT drain and end the server, a second one ends it at once. "
    "SIGHUP loads every\n"
    "table again. SIGPIPE and SIGUSR1 are ignored.\n"
    "Exit codes: 0 ok, 1 unexpected, 2 usage, configuration or address, 3 data file, 4 not serving, "
    "64+N gRPC status N,\n"
    "130 interrupted.";

// A list's flag takes one value each time it is given ("--table a b" leaves b over); of any other the last one holds.
CLI::Option* AddValue(CLI::App& app, const std::string& flag, bool is_list, std::vector<std::string>& values,
                      const std::string& value_name, const std::string& help) {
  CLI::Option* option = is_list ? app.add_option("--" + flag, values, help)->allow_extra_args(false)
                                : app.add_option_function<std::string>(
                                         "--" + flag, [&values](const std::string& value) { values = {value}; }, help)
                                      ->take_last();
  return option->type_name(value_name);
}

std::string DefaultText(const Setting& setting) {
  if (setting.kind == ValueKind::kStringList) return "none";
  const std::string text = setting.show(ServerOptions());
  return text.empty() ? "none" : text;
}

absl::Status UnknownWord(const std::string& word, const CLI::App& app) {
  std::vector<std::string> known;
  const bool is_flag = absl::StartsWith(word, "-");
  if (is_flag) {
    for (const CLI::App* part : {&app, static_cast<const CLI::App*>(app.get_subcommand("config")),
                                 static_cast<const CLI::App*>(app.get_subcommand("health"))}) {
      for (const CLI::Option* option : part->get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back(absl::StrCat("--", name));
      }
    }
  } else {
    known = {"config", "health"};
  }
  const std::string given = word.substr(0, word.find('='));
  // A command's own flag without the command, or a second command.
  if (std::find(known.begin(), known.end(), given) != known.end()) {
    return absl::InvalidArgumentError(absl::StrCat(given, " has no place here; see --help"));
  }
  const std::string nearest = NearestName(given, known);
  return absl::InvalidArgumentError(
      absl::StrCat(is_flag ? "unknown flag " : "unknown command ", Escaped(given),
                   nearest.empty() ? "; see --help" : absl::StrCat("; did you mean ", nearest, "?")));
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App app("Serves embedding tables over gRPC: Lookup, Similarity, NearestNeighbour.", "embedding-server");
  app.get_formatter()->column_width(36);
  app.footer(kFooter);
  app.set_help_flag("-h,--help", "print this and exit");
  app.allow_extras();
  app.fallthrough();

  std::map<std::string, std::vector<std::string>> values;
  for (const Setting& setting : Settings()) {
    AddValue(app, setting.flag, setting.kind == ValueKind::kStringList, values[setting.flag], setting.value_name,
             absl::StrCat(setting.help, "\n[env: ", EnvironmentName(setting.flag), "] [default: ", DefaultText(setting),
                          "]"))
        ->group(setting.group);
  }
  AddValue(app, "config", /*is_list=*/false, values["config"], "FILE",
           absl::StrCat("settings as key = \"value\" lines, keys as the flags\n[env: ", EnvironmentName("config"),
                        "] [default: none]"));
  bool version = false;
  app.add_flag("--version", version, "print version, commit, compiler and SIMD target, and exit");

  CLI::App* config = app.add_subcommand("config", "print each setting with its value and where that comes from");
  config->add_flag("--json", line.json, "as one JSON object");
  CLI::App* health =
      app.add_subcommand("health", "ask a running server: exit 0 serving, 4 not serving, 64+N gRPC error N");
  health
      ->add_option("--address", line.health_address,
                   "HOST:PORT or unix:PATH\n[default: the --grpc-address of this configuration]")
      ->type_name("ADDRESS");
  health
      ->add_option("--service", line.health_service,
                   "\"\", embedding.v1.EmbeddingService or table/NAME\n[default: \"\", the whole server]")
      ->type_name("NAME");
  health->add_option("--timeout", line.health_timeout, "how long to wait\n[default: 1s]")->type_name("TIME");
  for (CLI::App* command : {config, health}) {
    command->set_help_flag("-h,--help", "print this and exit");
    command->allow_extras();
    command->fallthrough();
  }
  app.require_subcommand(0, 1);

  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    line.command = CommandLine::Command::kHelp;
    line.help = app.help();
    return line;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(OneLine(error.what()));
  }
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty()) return UnknownWord(rest.front(), app);

  if (version) {
    line.command = CommandLine::Command::kVersion;
  } else if (config->parsed()) {
    line.command = CommandLine::Command::kConfig;
  } else if (health->parsed()) {
    line.command = CommandLine::Command::kHealth;
  }
  for (auto& [flag, given] : values) {
    if (!given.empty()) line.flags[flag] = std::move(given);
  }
  return line;
}

}  // namespace embedding
