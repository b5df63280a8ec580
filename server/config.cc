#include "server/config.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/status_codec.h"
#include "server/config_file.h"
#include "server/nearest_name.h"

namespace embedding {
namespace {

constexpr char kPrefix[] = "EMBEDDING_";
constexpr char kConfigFlag[] = "config";
// Known to the clients, which often run beside a server.
constexpr char kClientVariable[] = "EMBEDDING_ADDRESS";

// What one layer says of one setting.
struct Given {
  std::vector<std::string> values;
  std::string origin;   // as `config` shows it
  std::string subject;  // how a message names it: "--max-ids", "EMBEDDING_MAX_IDS", "server.toml:3: max-ids"
};
using Layer = std::map<std::string, Given>;

Layer FlagLayer(const FlagValues& flags) {
  Layer layer;
  for (const auto& [flag, values] : flags) layer[flag] = {values, "flag", absl::StrCat("--", flag)};
  return layer;
}

Layer EnvironmentLayer(const std::vector<std::string>& environment, std::vector<std::string>& warnings) {
  std::map<std::string, std::string> flag_of = {{EnvironmentName(kConfigFlag), kConfigFlag}};
  std::map<std::string, bool> is_list;
  std::vector<std::string> known = {EnvironmentName(kConfigFlag)};
  for (const Setting& setting : Settings()) {
    const std::string name = EnvironmentName(setting.flag);
    flag_of[name] = setting.flag;
    is_list[name] = setting.kind == ValueKind::kStringList;
    known.push_back(name);
  }
  Layer layer;
  for (const std::string& entry : environment) {
    const std::pair<std::string, std::string> variable = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    const auto& [name, value] = variable;
    if (!absl::StartsWith(name, kPrefix) || name == kClientVariable) continue;
    const auto it = flag_of.find(name);
    if (it == flag_of.end()) {
      const std::string nearest = NearestName(name, known);
      warnings.push_back(absl::StrCat("the variable ", Escaped(name), " is not known and changes nothing",
                                      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
      continue;
    }
    if (value.empty()) continue;
    std::vector<std::string> values = {value};
    if (is_list[name]) values = absl::StrSplit(value, ';', absl::SkipWhitespace());
    layer[it->second] = {std::move(values), "env", name};
  }
  return layer;
}

absl::StatusOr<Layer> FileLayer(const std::string& path) {
  absl::StatusOr<std::vector<ConfigEntry>> entries = ReadConfigFile(path);
  if (!entries.ok()) return entries.status();
  std::vector<std::string> known;
  for (const Setting& setting : Settings()) known.push_back(setting.flag);
  Layer layer;
  for (ConfigEntry& entry : *entries) {
    const std::string where = absl::StrCat(path, ":", entry.line);
    const auto setting =
        std::find_if(Settings().begin(), Settings().end(), [&](const Setting& s) { return s.flag == entry.key; });
    if (setting == Settings().end()) {
      const std::string nearest = NearestName(entry.key, known);
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the key '", entry.key, "' is not known",
                       nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
    if (entry.is_list && setting->kind != ValueKind::kStringList) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", entry.key, " takes one value, not a list"));
    }
    layer[entry.key] = {std::move(entry.values), where, absl::StrCat(where, ": ", entry.key)};
  }
  return layer;
}

const Given* Find(const std::vector<const Layer*>& layers, const std::string& flag) {
  for (const Layer* layer : layers) {
    if (const auto it = layer->find(flag); it != layer->end()) return &it->second;
  }
  return nullptr;
}

absl::Status Refused(const Given& given, const std::string& value, const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(given.subject, " is '", Escaped(value, 256), "': ", std::string(why.message())));
}

std::string Quoted(const std::string& text, bool json) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (c == '\n') {
      absl::StrAppend(&quoted, "\\n");
    } else if (c == '\t') {
      absl::StrAppend(&quoted, "\\t");
    } else if (json && static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppend(&quoted, absl::StrFormat("\\u%04x", c));
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

std::string ValueText(const Effective& setting, bool json) {
  if (setting.kind == ValueKind::kStringList) {
    const auto append = [json](std::string* out, const std::string& value) {
      absl::StrAppend(out, Quoted(value, json));
    };
    return absl::StrCat("[", absl::StrJoin(setting.values, ", ", append), "]");
  }
  return setting.kind == ValueKind::kString ? Quoted(setting.values[0], json) : setting.values[0];
}

}  // namespace

absl::StatusOr<Configuration> Configure(const FlagValues& flags, const std::vector<std::string>& environment) {
  Configuration configuration;
  const Layer flag_layer = FlagLayer(flags);
  const Layer environment_layer = EnvironmentLayer(environment, configuration.warnings);
  Layer file_layer;
  std::vector<const Layer*> layers = {&flag_layer, &environment_layer};
  if (const Given* file = Find(layers, kConfigFlag); file != nullptr) {
    absl::StatusOr<Layer> layer = FileLayer(file->values.back());
    if (!layer.ok()) return layer.status();
    file_layer = *std::move(layer);
    layers.push_back(&file_layer);
  }

  for (const Setting& setting : Settings()) {
    Effective effective{setting.flag, setting.kind, {}, "default"};
    const bool is_list = setting.kind == ValueKind::kStringList;
    if (const Given* given = Find(layers, setting.flag); given != nullptr) {
      effective.origin = given->origin;
      const std::vector<std::string> values = is_list ? given->values : std::vector<std::string>{given->values.back()};
      for (const std::string& value : values) {
        if (absl::Status s = setting.set(value, configuration.options); !s.ok()) return Refused(*given, value, s);
      }
      if (is_list) effective.values = values;
    }
    if (!is_list) effective.values = {setting.show(configuration.options)};
    configuration.settings.push_back(std::move(effective));
  }
  if (absl::Status s = CheckTogether(configuration.options); !s.ok()) return s;
  return configuration;
}

std::vector<std::string> ProcessEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

std::string ConfigurationText(const Configuration& configuration) {
  std::vector<std::string> lines;
  size_t width = 0;
  for (const Effective& setting : configuration.settings) {
    lines.push_back(absl::StrCat(setting.flag, " = ", ValueText(setting, /*json=*/false)));
    width = std::max(width, std::min<size_t>(lines.back().size(), 48));
  }
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t padding = lines[i].size() < width ? width - lines[i].size() : 0;
    absl::StrAppend(&text, lines[i], std::string(padding, ' '), "  # ", configuration.settings[i].origin, "\n");
  }
  return text;
}

std::string ConfigurationJson(const Configuration& configuration) {
  std::vector<std::string> members;
  for (const Effective& setting : configuration.settings) {
    members.push_back(absl::StrCat("  ", Quoted(setting.flag, true),
                                   ": {\"value\": ", ValueText(setting, /*json=*/true),
                                   ", \"origin\": ", Quoted(setting.origin, true), "}"));
  }
  return absl::StrCat("{\n", absl::StrJoin(members, ",\n"), "\n}\n");
}

}  // namespace embedding
