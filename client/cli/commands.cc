#include "client/cli/commands.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/failure.h"
#include "client/cli/health.h"
#include "client/cli/pairing.h"
#include "client/cli/printer.h"
#include "client/cli/table_changes.h"
#include "client/cli/words.h"
#include "client/embedding_client.h"
#include "client/split.h"

namespace embedding::client {
namespace {

class Runner {
 public:
  Runner(const Command& command, std::istream& in, std::ostream& out, std::ostream& err)
      : command_(command), in_(in), out_(out), err_(err) {}

  int Run() {
    if (command_.kind == CommandKind::kHealth) return Health();
    absl::StatusOr<std::unique_ptr<EmbeddingClient>> client = EmbeddingClient::Create(command_.client);
    if (!client.ok()) return Usage(client.status());
    client_ = *std::move(client);
    switch (command_.kind) {
      case CommandKind::kLookup:
        return Lookup();
      case CommandKind::kSimilarity:
        return Similarity();
      case CommandKind::kNeighbours:
        return Neighbours();
      case CommandKind::kTables:
        return Tables();
      case CommandKind::kVersions:
        return Versions();
      case CommandKind::kReload:
      case CommandKind::kRollback:
      case CommandKind::kUnload:
        return ChangeTable();
      default:
        return Info();
    }
  }

 private:
  int Usage(const absl::Status& status) {
    err_ << "embedding-cli: " << status.message() << "\n";
    return kExitUsage;
  }

  int Failed(const absl::Status& status) {
    err_ << "embedding-cli: " << FailureText(status, command_.client) << "\n";
    return FailureExitCode(status);
  }

  CallOptions TimeLeft() {
    const auto used =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started_);
    return {.deadline = std::max(command_.client.deadline - used, std::chrono::milliseconds(1))};
  }

  bool HasRows() const { return !command_.keys.empty() || !command_.ids.empty(); }

  // The rows named on the command line; INVALID_ARGUMENT for words that cannot be read.
  absl::StatusOr<Rows> ReadRows() {
    if (!command_.keys.empty() && !command_.ids.empty()) {
      return absl::InvalidArgumentError("name rows either by keys or by --ids, not by both");
    }
    if (!command_.ids.empty()) {
      absl::StatusOr<Ids> ids = ParseIds(command_.ids, in_);
      if (!ids.ok()) return absl::InvalidArgumentError(absl::StrCat("--ids: ", ids.status().message()));
      return *std::move(ids);
    }
    absl::StatusOr<Keys> keys = ParseKeys(command_.keys, in_);
    if (!keys.ok()) return keys.status();
    return *std::move(keys);
  }

  absl::StatusOr<Vectors> ReadVectors() {
    absl::StatusOr<Vectors> vectors = ParseVectors(command_.vectors, in_);
    if (!vectors.ok()) return absl::InvalidArgumentError(absl::StrCat("--vector: ", vectors.status().message()));
    return vectors;
  }

  absl::Status Nothing(const char* choices) const {
    return absl::InvalidArgumentError(absl::StrCat("nothing named: give ", choices));
  }

  // Ids and keys of rows of the table that answered.
  absl::StatusOr<std::vector<RowName>> NamesOf(const Rows& rows, const TableStamp& stamp) {
    const TableRef table{stamp.name, stamp.version};
    ResolveKeysRequest request{.table = table, .query = KeyPrefix{}};
    std::vector<RowName> names;
    if (const Ids* ids = std::get_if<Ids>(&rows)) {
      const absl::StatusOr<TableInfo> info = client_->GetTable(table, TimeLeft());
      if (!info.ok()) return info.status();
      if (!info->has_keys) {
        for (const int64_t id : ids->values) names.push_back({id, ""});
        return names;
      }
      request.query = *ids;
    } else {
      request.query = std::get<Keys>(rows);
    }
    absl::StatusOr<ResolveKeysResult> resolved = client_->ResolveKeys(request, TimeLeft());
    if (!resolved.ok()) return resolved.status();
    for (size_t i = 0; i < resolved->ids.size(); ++i) names.push_back({resolved->ids[i], resolved->keys[i]});
    return names;
  }

  // What each vector of a source is called in the output: the key, the id (for people with its key), "vector 0".
  absl::StatusOr<std::vector<std::string>> LabelsOf(const VectorSource& source, const TableStamp& stamp) {
    std::vector<std::string> labels;
    if (const Keys* keys = std::get_if<Keys>(&source)) return keys->values;
    if (const Ids* ids = std::get_if<Ids>(&source)) {
      if (command_.output != Output::kTable) {
        for (const int64_t id : ids->values) labels.push_back(absl::StrCat(id));
        return labels;
      }
      const absl::StatusOr<std::vector<RowName>> names = NamesOf(*ids, stamp);
      if (!names.ok()) return names.status();
      for (const RowName& name : *names) {
        labels.push_back(name.key.empty() ? absl::StrCat("id ", name.id)
                                          : absl::StrCat(name.key, " (id ", name.id, ")"));
      }
      return labels;
    }
    for (size_t i = 0; i < CountOf(source); ++i) labels.push_back(absl::StrCat("vector ", i));
    return labels;
  }

  int Done() {
    out_.flush();
    if (out_) return kExitOk;
    err_ << "embedding-cli: stdout could not be written\n";
    return kExitUnexpected;
  }

  int Lookup() {
    if (!HasRows()) return Usage(Nothing("keys as words, or --ids"));
    absl::StatusOr<Rows> rows = ReadRows();
    if (!rows.ok()) return Usage(rows.status());
    const LookupRequest request{.table = {command_.table, 0}, .rows = *std::move(rows)};
    const absl::StatusOr<LookupResult> result = client_->Lookup(request, TimeLeft());
    if (!result.ok()) return Failed(result.status());
    std::vector<RowName> names;
    if (command_.output != Output::kJson) {
      absl::StatusOr<std::vector<RowName>> found = NamesOf(request.rows, result->table);
      if (!found.ok()) return Failed(found.status());
      names = *std::move(found);
    }
    PrintLookup(*result, names, command_.output, out_);
    return Done();
  }

  int Similarity();

  int Neighbours() {
    if (HasRows() == !command_.vectors.empty()) {
      return Usage(HasRows() ? absl::InvalidArgumentError("give rows or --vector, not both")
                             : Nothing("keys as words, --ids or --vector"));
    }
    NearestNeighbourRequest request;
    if (HasRows()) {
      absl::StatusOr<Rows> rows = ReadRows();
      if (!rows.ok()) return Usage(rows.status());
      std::visit([&](auto& list) { request.targets = std::move(list); }, *rows);
    } else {
      absl::StatusOr<Vectors> vectors = ReadVectors();
      if (!vectors.ok()) return Usage(vectors.status());
      request.targets = *std::move(vectors);
    }
    const absl::StatusOr<TableInfo> info = client_->GetTable({command_.table, 0}, TimeLeft());
    if (!info.ok()) return Failed(info.status());
    request.table.name = info->name;
    request.k = command_.k;
    request.metric = command_.metric;
    request.include_inputs = command_.include_inputs;
    request.return_keys = info->has_keys;
    request.return_vectors = command_.return_vectors;
    const absl::StatusOr<NearestNeighbourResult> result = client_->NearestNeighbour(request, TimeLeft());
    if (!result.ok()) return Failed(result.status());
    const absl::StatusOr<std::vector<std::string>> labels = LabelsOf(request.targets, result->table);
    if (!labels.ok()) return Failed(labels.status());
    PrintNeighbours(*result, *labels, command_.output, out_);
    return Done();
  }

  // The table that is named, or all.
  absl::StatusOr<std::vector<TableInfo>> NamedTables() {
    if (command_.table.empty()) return client_->ListTables(TimeLeft());
    absl::StatusOr<TableInfo> one = client_->GetTable({command_.table, 0}, TimeLeft());
    if (!one.ok()) return one.status();
    return std::vector<TableInfo>{*std::move(one)};
  }

  int Tables() {
    const absl::StatusOr<std::vector<TableInfo>> tables = NamedTables();
    if (!tables.ok()) return Failed(tables.status());
    PrintTables(*tables, command_.output, out_);
    return Done();
  }

  int Versions() {
    absl::StatusOr<std::vector<TableInfo>> tables = NamedTables();
    if (!tables.ok()) return Failed(tables.status());
    PrintVersions(*tables, command_.output, out_);
    return Done();
  }

  int ChangeTable() {
    const absl::StatusOr<LoadTableRequest> request = ReadLoadTable(command_);
    if (!request.ok()) return Usage(request.status());
    const absl::StatusOr<TableInfo> table = RunTableChange(command_, *request, *client_, TimeLeft());
    if (!table.ok()) return Failed(table.status());
    PrintChangedTable(*table, command_.output, out_);
    return Done();
  }

  int Info() {
    const absl::StatusOr<ServerInfo> info = client_->GetServerInfo(TimeLeft());
    if (!info.ok()) return Failed(info.status());
    PrintInfo(*info, command_.output, out_);
    return Done();
  }

  int Health() {
    std::string state;
    if (command_.watch) {
      const auto duration = command_.deadline_given ? std::optional(command_.client.deadline) : std::nullopt;
      const absl::Status end = WatchHealth(command_.client, command_.service, duration, [&](const std::string& now) {
        state = now;
        PrintHealth(state, command_.output, out_);
        out_.flush();
      });
      const bool time_is_up = command_.deadline_given && absl::IsDeadlineExceeded(end) && !state.empty();
      if (!time_is_up) return Failed(end);
    } else {
      absl::StatusOr<std::string> now = CheckHealth(command_.client, command_.service);
      if (!now.ok()) return Failed(now.status());
      state = *std::move(now);
      PrintHealth(state, command_.output, out_);
    }
    if (const int code = Done(); code != kExitOk) return code;
    return state == "SERVING" ? kExitOk : kExitNotServing;
  }

  const Command& command_;
  std::istream& in_;
  std::ostream& out_;
  std::ostream& err_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::unique_ptr<EmbeddingClient> client_;
};

int Runner::Similarity() {
  if (!HasRows() && command_.vectors.empty()) return Usage(Nothing("keys as words, --ids or --vector"));
  VectorSource rows;
  if (HasRows()) {
    absl::StatusOr<Rows> read = ReadRows();
    if (!read.ok()) return Usage(read.status());
    std::visit([&](auto& list) { rows = std::move(list); }, *read);
  }
  VectorSource vectors;
  if (!command_.vectors.empty()) {
    absl::StatusOr<Vectors> read = ReadVectors();
    if (!read.ok()) return Usage(read.status());
    vectors = *std::move(read);
  }
  SimilarityRequest request;
  request.table.name = command_.table;
  request.metric = command_.metric;
  const bool mixed = HasRows() && !command_.vectors.empty();
  const VectorSource& operands = HasRows() ? rows : vectors;  // of the one kind there is, unless mixed
  absl::StatusOr<Sides> sides = Sides();
  if (mixed) {
    request.left = vectors;
    request.right = rows;
    request.layout = command_.pairing == Pairing::kPairwise ? Layout::kPairwise : Layout::kAllPairs;
    if (request.layout == Layout::kPairwise && CountOf(vectors) != CountOf(rows)) {
      return Usage(absl::InvalidArgumentError(absl::StrCat("--layout pairwise needs as many vectors as rows, given ",
                                                           CountOf(vectors), " and ", CountOf(rows))));
    }
  } else {
    sides = PairUp(CountOf(operands), command_.pairing);
    if (!sides.ok()) return Usage(sides.status());
    request.left = Picked(operands, sides->left);
    request.right = Picked(operands, sides->right);
    request.layout = sides->layout;
  }
  const absl::StatusOr<SimilarityResult> result = client_->Similarity(request, TimeLeft());
  if (!result.ok()) return Failed(result.status());
  const absl::StatusOr<std::vector<std::string>> labels = LabelsOf(operands, result->table);
  if (!labels.ok()) return Failed(labels.status());
  if (mixed) {
    PrintSimilarity(*result, *LabelsOf(vectors, result->table), *labels, command_.output, out_);
  } else {
    PrintSimilarity(*result, Picked(*labels, sides->left), Picked(*labels, sides->right), command_.output, out_);
  }
  return Done();
}

}  // namespace

int RunCommand(const Command& command, std::istream& in, std::ostream& out, std::ostream& err) {
  return Runner(command, in, out, err).Run();
}

}  // namespace embedding::client
