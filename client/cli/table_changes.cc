#include "client/cli/table_changes.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace embedding::client {
namespace {

// The highest version in memory below the serving one; 0: there is none.
uint64_t EarlierVersion(const TableInfo& table) {
  uint64_t earlier = 0;
  for (const TableVersion& known : table.versions) {
    if (known.state == TableState::kAvailable && known.version < table.serving_version) earlier = known.version;
  }
  return earlier;
}

absl::StatusOr<TableInfo> RollBack(const Command& command, EmbeddingClient& client, const CallOptions& call) {
  if (command.version != 0) return client.SetServingVersion(command.table, command.version, call);
  const absl::StatusOr<TableInfo> table = client.GetTable({command.table, 0}, call);
  if (!table.ok()) return table.status();
  const uint64_t earlier = EarlierVersion(*table);
  if (earlier == 0) {
    return absl::NotFoundError(absl::StrCat("table \"", table->name, "\" serves version ", table->serving_version,
                                            " and has none below it in memory (--keep-versions of the server)"));
  }
  return client.SetServingVersion(command.table, earlier, call);
}

}  // namespace

absl::StatusOr<LoadTableRequest> ReadLoadTable(const Command& command) {
  LoadTableRequest request{.name = command.table, .path = command.path, .options = {}};
  for (const std::string& option : command.options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--option: \"", option, "\" is not key=value"));
    }
    if (!request.options.emplace(option.substr(0, equals), option.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(absl::StrCat("--option: ", option.substr(0, equals), " is given twice"));
    }
  }
  return request;
}

absl::StatusOr<TableInfo> RunTableChange(const Command& command, const LoadTableRequest& request,
                                         EmbeddingClient& client, const CallOptions& call) {
  switch (command.kind) {
    case CommandKind::kReload:
      return client.LoadTable(request, call);
    case CommandKind::kRollback:
      return RollBack(command, client, call);
    default:
      return client.UnloadTable(command.table, command.version, call);
  }
}

}  // namespace embedding::client
