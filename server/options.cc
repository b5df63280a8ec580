#include "server/options.h"

#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "server/endpoint.h"
#include "server/values.h"

namespace embedding {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kTiB = int64_t{1} << 40;

// Gives the place of a value in the options.
template <typename T>
using Member = T& (*)(ServerOptions&);

template <typename T>
const T& Get(Member<T> member, const ServerOptions& options) {
  return member(const_cast<ServerOptions&>(options));
}

template <typename T>
absl::Status Assign(absl::StatusOr<T> value, T& place) {
  if (!value.ok()) return value.status();
  place = *std::move(value);
  return absl::OkStatus();
}

Setting Count(std::string flag, std::string group, const std::string& help, int64_t min, int64_t max,
              Member<int64_t> member) {
  return {std::move(flag),
          std::move(group),
          "N",
          absl::StrCat(help, ", ", min, " to ", max),
          ValueKind::kNumber,
          [=](absl::string_view text, ServerOptions& options) {
            return Assign(ParseCount(text, min, max), member(options));
          },
          [=](const ServerOptions& options) { return absl::StrCat(Get(member, options)); }};
}

// unset: what 0 stands for.
Setting Threads(std::string flag, std::string group, const std::string& help, const std::string& unset,
                Member<int> member) {
  return {std::move(flag),
          std::move(group),
          "N",
          absl::StrCat(help, ", 1 to 1024; 0: ", unset),
          ValueKind::kNumber,
          [=](absl::string_view text, ServerOptions& options) {
            const absl::StatusOr<int64_t> threads = ParseCount(text, 0, 1024);
            if (threads.ok()) member(options) = static_cast<int>(*threads);
            return threads.status();
          },
          [=](const ServerOptions& options) { return absl::StrCat(Get(member, options)); }};
}

Setting Size(std::string flag, std::string group, const std::string& help, int64_t min, int64_t max,
             Member<int64_t> member) {
  return {std::move(flag),
          std::move(group),
          "BYTES",
          absl::StrCat(help, ", ", SizeText(min), " to ", SizeText(max)),
          ValueKind::kString,
          [=](absl::string_view text, ServerOptions& options) {
            return Assign(ParseSize(text, min, max), member(options));
          },
          [=](const ServerOptions& options) { return SizeText(Get(member, options)); }};
}

Setting Duration(std::string flag, std::string group, const std::string& help, milliseconds min, milliseconds max,
                 Member<milliseconds> member) {
  return {std::move(flag),
          std::move(group),
          "TIME",
          absl::StrCat(help, ", ", DurationText(min), " to ", DurationText(max)),
          ValueKind::kString,
          [=](absl::string_view text, ServerOptions& options) {
            return Assign(ParseDuration(text, min, max), member(options));
          },
          [=](const ServerOptions& options) { return DurationText(Get(member, options)); }};
}

Setting Choice(std::string flag, std::string group, std::string help, const std::vector<std::string>& choices,
               Member<std::string> member) {
  std::string names = absl::StrJoin(choices, "|");
  return {std::move(flag),
          std::move(group),
          std::move(names),
          std::move(help),
          ValueKind::kString,
          [choices, member](absl::string_view text, ServerOptions& options) {
            for (const std::string& choice : choices) {
              if (text != choice) continue;
              member(options) = choice;
              return absl::OkStatus();
            }
            return absl::InvalidArgumentError(absl::StrCat("want one of ", absl::StrJoin(choices, ", ")));
          },
          [member](const ServerOptions& options) { return Get(member, options); }};
}

Setting Address(std::string flag, std::string value_name, std::string help, bool allow_unix,
                Member<std::string> member) {
  return {std::move(flag),
          "Addresses",
          std::move(value_name),
          std::move(help),
          ValueKind::kString,
          [=](absl::string_view text, ServerOptions& options) {
            const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text, allow_unix);
            if (!endpoint.ok()) return endpoint.status();
            member(options) = std::string(text);
            return absl::OkStatus();
          },
          [member](const ServerOptions& options) { return Get(member, options); }};
}

std::vector<Setting> MakeSettings() {
  const std::string tables = "Tables", limits = "Limits of a request", load = "Load", life = "Life and log";
  std::vector<Setting> all;
  all.push_back({"table", tables, "NAME=PATH[,key=value...]",
                 "a table to serve, repeatable; keys: tensor, format, dtype, dim, vocab,\n"
                 "invalid-keys, duplicate-keys, metric, codes, index, hnsw-m, hnsw-ef-construction,\n"
                 "default-row, allow-non-finite, allow-dim-change",
                 ValueKind::kStringList,
                 [](absl::string_view text, ServerOptions& options) {
                   absl::StatusOr<TableOptions> table = ParseTableOptions(text);
                   if (!table.ok()) return table.status();
                   options.tables.push_back(*std::move(table));
                   return absl::OkStatus();
                 },
                 nullptr});
  all.push_back(Count("max-rows", tables, "rows of a table", 1, std::numeric_limits<int32_t>::max(),
                      [](ServerOptions& o) -> int64_t& { return o.table_limits.max_rows; }));
  all.push_back(Count("max-dim", tables, "width of a table", 1, 65536,
                      [](ServerOptions& o) -> int64_t& { return o.table_limits.max_dim; }));

  all.push_back({"table-root", tables, "DIR",
                 "lets callers load tables from this folder, and unload and roll back any\n"
                 "(TableAdminService); whoever reaches the port may: see the README",
                 ValueKind::kString,
                 [](absl::string_view text, ServerOptions& options) {
                   std::error_code error;
                   if (!text.empty() && !std::filesystem::is_directory(std::string(text), error)) {
                     return absl::InvalidArgumentError("want a folder that is there");
                   }
                   options.table_root = std::string(text);
                   return absl::OkStatus();
                 },
                 [](const ServerOptions& options) { return options.table_root; }});
  all.push_back(Count("keep-versions", tables, "versions of a table kept in memory, the serving one counted", 1, 64,
                      [](ServerOptions& o) -> int64_t& { return o.keep_versions; }));
  all.push_back(Size("max-table-bytes", tables, "memory of all tables and versions; 0: what the memory limit allows", 0,
                     int64_t{1024} * kTiB, [](ServerOptions& o) -> int64_t& { return o.max_table_bytes; }));

  all.push_back(Address("grpc-address", "HOST:PORT|unix:PATH", "where gRPC is served; port 0: any free one", true,
                        [](ServerOptions& o) -> std::string& { return o.grpc_address; }));
  all.push_back(Address("admin-address", "HOST:PORT",
                        "where /metrics, /livez and /readyz are served; port 0: any free one", false,
                        [](ServerOptions& o) -> std::string& { return o.admin_address; }));

  all.push_back(Count("max-ids", limits, "ids or keys", 1, int64_t{1} << 24,
                      [](ServerOptions& o) -> int64_t& { return o.limits.max_ids; }));
  all.push_back(Count("max-queries", limits, "queries of a neighbour search", 1, 65536,
                      [](ServerOptions& o) -> int64_t& { return o.limits.max_queries; }));
  all.push_back(Count("max-k", limits, "neighbours of a query", 1, 1'000'000,
                      [](ServerOptions& o) -> int64_t& { return o.limits.max_k; }));
  all.push_back(Count("max-pairs", limits, "scores of a Similarity", 1, int64_t{1} << 28,
                      [](ServerOptions& o) -> int64_t& { return o.limits.max_pairs; }));
  all.push_back(Count("max-filter-ids", limits, "ids in both lists of a filter", 1, int64_t{1} << 28,
                      [](ServerOptions& o) -> int64_t& { return o.limits.max_filter_ids; }));
  all.push_back(Size("max-request-bytes", limits, "size of a request", kKiB, kGiB,
                     [](ServerOptions& o) -> int64_t& { return o.limits.max_request_bytes; }));
  all.push_back(Size("max-response-bytes", limits, "size of an answer", kKiB, kGiB,
                     [](ServerOptions& o) -> int64_t& { return o.limits.max_response_bytes; }));
  all.push_back(Duration("max-deadline", limits, "longest that a call may take", milliseconds(1),
                         std::chrono::hours(24),
                         [](ServerOptions& o) -> milliseconds& { return o.limits.max_deadline; }));

  all.push_back(Threads("threads", load, "threads", "as many as the CPU quota and affinity allow",
                        [](ServerOptions& o) -> int& { return o.threads; }));
  all.push_back(Threads("polling-threads", load, "threads that take calls and answer lookups", "half of --threads",
                        [](ServerOptions& o) -> int& { return o.polling_threads; }));
  all.push_back(Size("max-in-flight-bytes", load, "answers held in memory at once; more is refused", kKiB, kTiB,
                     [](ServerOptions& o) -> int64_t& { return o.admission.max_in_flight_bytes; }));
  all.push_back(Count("max-queued-searches", load, "Similarity and NearestNeighbour calls at once; more is refused", 1,
                      1'000'000, [](ServerOptions& o) -> int64_t& { return o.admission.max_queued_searches; }));

  all.push_back(Duration("drain-delay", life, "after SIGTERM: answers still, but says NOT_SERVING", milliseconds(0),
                         std::chrono::minutes(10), [](ServerOptions& o) -> milliseconds& { return o.drain_delay; }));
  all.push_back(Duration("drain-timeout", life, "after that: time for calls in flight", milliseconds(0),
                         std::chrono::hours(1), [](ServerOptions& o) -> milliseconds& { return o.drain_timeout; }));
  all.push_back(Choice("log-format", life, "form of a log line", {"text", "json"},
                       [](ServerOptions& o) -> std::string& { return o.log_format; }));
  all.push_back(Choice("log-level", life, "least that is logged",
                       {"trace", "debug", "info", "warning", "error", "critical"},
                       [](ServerOptions& o) -> std::string& { return o.log_level; }));
  all.push_back(
      {"reflection", life, "true|false", "lets tools ask for the API's description", ValueKind::kBool,
       [](absl::string_view text, ServerOptions& options) { return Assign(ParseBool(text), options.reflection); },
       [](const ServerOptions& options) { return std::string(options.reflection ? "true" : "false"); }});
  return all;
}

absl::Status Contradiction(const std::string& low, int64_t low_value, const std::string& high, int64_t high_value,
                           const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", low, " is ", low_value, ", less than --", high, " ", high_value, ": ", why));
}

}  // namespace

const std::vector<Setting>& Settings() {
  static const auto& settings = *new std::vector<Setting>(MakeSettings());
  return settings;
}

std::string EnvironmentName(absl::string_view flag) {
  return absl::StrCat("EMBEDDING_", absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}})));
}

absl::Status CheckTogether(const ServerOptions& options) {
  std::set<std::string> names;
  for (const TableOptions& table : options.tables) {
    if (!names.insert(table.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("--table: two tables have the name '", table.name, "'"));
    }
  }
  const RequestLimits& limits = options.limits;
  if (limits.max_request_bytes < limits.max_ids) {
    return Contradiction("max-request-bytes", limits.max_request_bytes, "max-ids", limits.max_ids,
                         "an id takes at least one byte");
  }
  if (options.admission.max_in_flight_bytes < limits.max_response_bytes) {
    return Contradiction("max-in-flight-bytes", options.admission.max_in_flight_bytes, "max-response-bytes",
                         limits.max_response_bytes, "the largest answer would not fit");
  }
  const bool any_port = absl::EndsWith(options.grpc_address, ":0");
  if (options.grpc_address == options.admin_address && !any_port) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grpc-address and --admin-address are both ", options.grpc_address));
  }
  return absl::OkStatus();
}

}  // namespace embedding
