#include "client/cli/commands.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/failure.h"
#include "client/cli/health.h"
#include "client/cli/pairing.h"
#include "client/cli/printer.h"
#include "client/cli/table_changes.h"
#include "client/cli/text.h"
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
    if (absl::Status status = CheckStdin(); !status.ok()) return Usage(status);
    switch (command_.kind) {
      case CommandKind::kLookup:
        return Lookup();
      case CommandKind::kSimilarity:
        return Similarity();
      case CommandKind::kNeighbours:
        return Neighbours();
      case CommandKind::kAnalogy:
        return Analogy();
      case CommandKind::kOddOneOut:
        return OddOneOut();
      case CommandKind::kResolve:
        return Resolve();
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

  // Stdin can be read once.
  absl::Status CheckStdin() const {
    int64_t uses = 0;
    for (const auto* words : {&command_.ids, &command_.vectors, &command_.allow, &command_.deny}) {
      uses += std::count(words->begin(), words->end(), "-");
    }
    // In an analogy "-" is a sign.
    if (command_.kind != CommandKind::kAnalogy) uses += std::count(command_.keys.begin(), command_.keys.end(), "-");
    if (uses <= 1) return absl::OkStatus();
    return absl::InvalidArgumentError("\"-\" is given twice, but stdin can be read once");
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

  // The same for the rows of a lookup, of which some may be missing.
  absl::StatusOr<std::vector<RowName>> NamesOf(const Rows& rows, const LookupResult& result) {
    if (result.missing_positions.empty()) return NamesOf(rows, result.table);
    Ids ids;
    Keys keys;
    std::vector<RowName> all(CountOf(rows));
    for (const int64_t position : result.missing_positions) all[static_cast<size_t>(position)].missing = true;
    const bool by_key = std::holds_alternative<Keys>(rows);
    for (size_t i = 0; i < all.size(); ++i) {
      if (by_key) {
        all[i].id = -1;
        all[i].key = std::get<Keys>(rows).values[i];
        if (!all[i].missing) keys.values.push_back(all[i].key);
      } else {
        all[i].id = std::get<Ids>(rows).values[i];
        if (!all[i].missing) ids.values.push_back(all[i].id);
      }
    }
    const absl::StatusOr<std::vector<RowName>> found = NamesOf(by_key ? Rows(keys) : Rows(ids), result.table);
    if (!found.ok()) return found.status();
    auto next = found->begin();
    for (RowName& name : all) {
      if (!name.missing) name = *next++;
    }
    return all;
  }

  // Rows that an answer says are missing, as they were named: keys, or ids in digits.
  using Missing = std::set<std::string>;

  static void AddMissing(const VectorSource& source, const std::vector<int64_t>& positions, Missing& missing) {
    for (const int64_t position : positions) {
      const auto i = static_cast<size_t>(position);
      if (const Ids* ids = std::get_if<Ids>(&source)) missing.insert(absl::StrCat(ids->values[i]));
      if (const Keys* keys = std::get_if<Keys>(&source)) missing.insert(keys->values[i]);
    }
  }

  // What each vector of a source is called in the output: the key, the id (for people with its key), "vector 0"; people
  // are told which rows are missing.
  absl::StatusOr<std::vector<std::string>> LabelsOf(const VectorSource& source, const TableStamp& stamp,
                                                    const Missing& missing = {}) {
    std::vector<std::string> labels;
    const bool for_people = command_.output == Output::kTable;
    if (const Keys* keys = std::get_if<Keys>(&source)) {
      labels = keys->values;
      for (std::string& label : labels) {
        if (for_people && missing.contains(label)) label += " (missing)";
      }
      return labels;
    }
    if (const Ids* ids = std::get_if<Ids>(&source)) {
      if (!for_people) {
        for (const int64_t id : ids->values) labels.push_back(absl::StrCat(id));
        return labels;
      }
      Ids found;
      for (const int64_t id : ids->values) {
        if (!missing.contains(absl::StrCat(id))) found.values.push_back(id);
      }
      const absl::StatusOr<std::vector<RowName>> names = NamesOf(found, stamp);
      if (!names.ok()) return names.status();
      auto name = names->begin();
      for (const int64_t id : ids->values) {
        if (missing.contains(absl::StrCat(id))) {
          labels.push_back(absl::StrCat("id ", id, " (missing)"));
          continue;
        }
        labels.push_back(name->key.empty() ? absl::StrCat("id ", id) : absl::StrCat(name->key, " (id ", id, ")"));
        ++name;
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
    LookupRequest request;
    request.table.name = command_.table;
    request.rows = *std::move(rows);
    request.missing = command_.missing;
    request.normalize = command_.normalize;
    request.dimensions = command_.dimensions;
    if (command_.pooling) {
      Pooling& pooling = request.pooling.emplace();
      pooling.mode = *command_.pooling;
      pooling.offsets = command_.offsets.empty() ? std::vector<int64_t>{0} : command_.offsets;
      pooling.weights = command_.weights;
    }
    const absl::StatusOr<LookupResult> result = client_->Lookup(request, TimeLeft());
    if (!result.ok()) return Failed(result.status());
    if (command_.pooling) {
      PrintBags(*result, command_.output, out_);
      return Done();
    }
    std::vector<RowName> names;
    if (command_.output != Output::kJson) {
      absl::StatusOr<std::vector<RowName>> found = NamesOf(request.rows, *result);
      if (!found.ok()) return Failed(found.status());
      names = *std::move(found);
    }
    PrintLookup(*result, names, command_.missing == MissingPolicy::kSkip, command_.output, out_);
    return Done();
  }

  int Similarity();
  // Sides and layout of a request: vectors on the left and rows on the right (the sides are then empty)...
  absl::StatusOr<Sides> SetAgainst(const VectorSource& vectors, const VectorSource& rows,
                                   SimilarityRequest& request) const;
  // ... or operands of one kind, of which the sides tell which stand where.
  absl::StatusOr<Sides> SetBeside(const VectorSource& operands, SimilarityRequest& request) const;

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
    if (absl::Status status = ReadFilter(request.filter); !status.ok()) return Usage(status);
    const absl::StatusOr<NearestNeighbourResult> result = Search(request);
    if (!result.ok()) return Failed(result.status());
    Missing missing;
    AddMissing(request.targets, result->missing_positions, missing);
    const absl::StatusOr<std::vector<std::string>> labels = LabelsOf(request.targets, result->table, missing);
    if (!labels.ok()) return Failed(labels.status());
    PrintNeighbours(*result, *labels, command_.output, out_);
    return Done();
  }

  // INVALID_ARGUMENT for words that cannot be read.
  absl::Status ReadFilter(Filter& filter) {
    absl::StatusOr<Ids> allow = ParseIds(command_.allow, in_);
    if (!allow.ok()) return absl::InvalidArgumentError(absl::StrCat("--allow: ", allow.status().message()));
    if (command_.allow_given) filter.allow = std::move(allow->values);
    absl::StatusOr<Ids> deny = ParseIds(command_.deny, in_);
    if (!deny.ok()) return absl::InvalidArgumentError(absl::StrCat("--deny: ", deny.status().message()));
    filter.deny = std::move(deny->values);
    if (command_.rows.empty()) return absl::OkStatus();
    const auto range = ParseRowRange(command_.rows);
    if (!range.ok()) return absl::InvalidArgumentError(absl::StrCat("--rows: ", range.status().message()));
    std::tie(filter.first_row, filter.end_row) = *range;
    return absl::OkStatus();
  }

  // Sends a search whose query and filter are set, with what the command line says of it.
  absl::StatusOr<NearestNeighbourResult> Search(NearestNeighbourRequest& request) {
    const absl::StatusOr<TableInfo> info = client_->GetTable({command_.table, 0}, TimeLeft());
    if (!info.ok()) return info.status();
    request.table.name = info->name;
    request.k = command_.k;
    request.metric = command_.metric;
    request.mode = command_.mode;
    request.effort = command_.effort;
    request.include_inputs = command_.include_inputs;
    request.score_threshold = command_.threshold;
    request.missing = command_.missing;
    request.return_keys = info->has_keys;
    request.return_vectors = command_.return_vectors;
    return client_->NearestNeighbour(request, TimeLeft());
  }

  int Analogy();
  int OddOneOut();
  int Resolve();

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

absl::StatusOr<Sides> Runner::SetAgainst(const VectorSource& vectors, const VectorSource& rows,
                                         SimilarityRequest& request) const {
  request.left = vectors;
  request.right = rows;
  request.layout = command_.pairing == Pairing::kPairwise ? Layout::kPairwise : Layout::kAllPairs;
  const bool in_pairs = request.layout == Layout::kPairwise && command_.reduce == Reduce::kNone;
  if (!in_pairs || CountOf(vectors) == CountOf(rows)) return Sides();
  return absl::InvalidArgumentError(absl::StrCat("--layout pairwise needs as many vectors as rows, given ",
                                                 CountOf(vectors), " and ", CountOf(rows)));
}

absl::StatusOr<Sides> Runner::SetBeside(const VectorSource& operands, SimilarityRequest& request) const {
  absl::StatusOr<Sides> sides = PairUp(CountOf(operands), command_.pairing);
  if (!sides.ok()) return sides.status();
  request.left = Picked(operands, sides->left);
  request.right = Picked(operands, sides->right);
  request.layout = sides->layout;
  return sides;
}

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
  request.missing = command_.missing;
  request.reduce = command_.reduce;
  const bool mixed = HasRows() && !command_.vectors.empty();
  const VectorSource& operands = HasRows() ? rows : vectors;  // of the one kind there is, unless mixed
  const absl::StatusOr<Sides> sides = mixed ? SetAgainst(vectors, rows, request) : SetBeside(operands, request);
  if (!sides.ok()) return Usage(sides.status());
  if (command_.reduce != Reduce::kNone) request.layout = Layout::kPairwise;
  const absl::StatusOr<SimilarityResult> result = client_->Similarity(request, TimeLeft());
  if (!result.ok()) return Failed(result.status());
  Missing missing;
  AddMissing(request.left, result->missing_left, missing);
  AddMissing(request.right, result->missing_right, missing);
  const absl::StatusOr<std::vector<std::string>> labels = LabelsOf(operands, result->table, missing);
  if (!labels.ok()) return Failed(labels.status());
  std::vector<std::string> left = mixed ? *LabelsOf(vectors, result->table) : Picked(*labels, sides->left);
  std::vector<std::string> right = mixed ? *labels : Picked(*labels, sides->right);
  if (command_.reduce != Reduce::kNone) {
    for (std::vector<std::string>* names : {&left, &right}) {
      *names = {absl::StrCat("mean of ", absl::StrJoin(*names, ", "))};
    }
  }
  PrintSimilarity(*result, left, right, command_.output, out_);
  return Done();
}

int Runner::Analogy() {
  absl::StatusOr<client::Analogy> analogy = ParseAnalogy(command_.keys);
  if (!analogy.ok()) return Usage(analogy.status());
  analogy->positive.insert(analogy->positive.end(), command_.positive.begin(), command_.positive.end());
  analogy->negative.insert(analogy->negative.end(), command_.negative.begin(), command_.negative.end());
  if (analogy->positive.empty() && analogy->negative.empty()) {
    return Usage(Nothing("words such as king - man + woman, --positive or --negative"));
  }
  std::string label = absl::StrJoin(analogy->positive, " + ");
  for (const std::string& key : analogy->negative) absl::StrAppend(&label, label.empty() ? "- " : " - ", key);
  NearestNeighbourRequest request;
  if (absl::Status status = ReadFilter(request.filter); !status.ok()) return Usage(status);
  ExampleQuery& query = request.examples.emplace_back();
  query.positive.push_back(Keys{std::move(analogy->positive), {}});
  query.negative.push_back(Keys{std::move(analogy->negative), {}});
  const absl::StatusOr<NearestNeighbourResult> result = Search(request);
  if (!result.ok()) return Failed(result.status());
  const bool is_missing = !result->missing_positions.empty() && command_.output == Output::kTable;
  PrintNeighbours(*result, {is_missing ? label + " (names a missing row)" : label}, command_.output, out_);
  return Done();
}

// The words themselves, by closeness to the mean of their unit vectors: the last one is the odd one out.
int Runner::OddOneOut() {
  const absl::StatusOr<Keys> words = ParseKeys(command_.keys, in_);
  if (!words.ok()) return Usage(words.status());
  ResolveKeysRequest resolve;
  resolve.table.name = command_.table;
  resolve.query = *words;
  if (std::set(words->values.begin(), words->values.end()).size() < 3) {
    return Usage(absl::InvalidArgumentError("odd-one-out needs three different words or more"));
  }
  absl::StatusOr<ResolveKeysResult> resolved = client_->ResolveKeys(resolve, TimeLeft());
  if (!resolved.ok()) return Failed(resolved.status());
  NearestNeighbourRequest request;
  request.table = {resolved->table.name, resolved->table.version};
  request.k = static_cast<int32_t>(words->values.size());
  request.metric = Metric::kCosine;
  request.include_inputs = true;
  request.return_keys = true;
  request.examples.push_back(
      {.positive = {Ids{resolved->ids, {}}}, .negative = {}, .positive_weights = {}, .negative_weights = {}});
  request.filter.allow = std::move(resolved->ids);
  const absl::StatusOr<NearestNeighbourResult> result = client_->NearestNeighbour(request, TimeLeft());
  if (!result.ok()) return Failed(result.status());
  const std::vector<std::string>& ranked = result->results.front().keys;
  if (command_.output == Output::kTable && !ranked.empty()) out_ << Printable(ranked.back()) << "\n\n";
  PrintNeighbours(*result, {absl::StrCat("mean of ", absl::StrJoin(words->values, ", "))}, command_.output, out_);
  return Done();
}

int Runner::Resolve() {
  if (HasRows() == command_.prefix.has_value()) {
    return Usage(HasRows() ? absl::InvalidArgumentError("give rows or --prefix, not both")
                           : Nothing("keys as words, --ids or --prefix"));
  }
  ResolveKeysRequest request;
  request.table.name = command_.table;
  if (HasRows()) {
    absl::StatusOr<Rows> rows = ReadRows();
    if (!rows.ok()) return Usage(rows.status());
    std::visit([&](auto& list) { request.query = std::move(list); }, *rows);
  } else {
    request.query = KeyPrefix{*command_.prefix, command_.limit};
  }
  const absl::StatusOr<ResolveKeysResult> result = client_->ResolveKeys(request, TimeLeft());
  if (!result.ok()) return Failed(result.status());
  PrintResolved(*result, command_.output, out_);
  return Done();
}

}  // namespace

int RunCommand(const Command& command, std::istream& in, std::ostream& out, std::ostream& err) {
  return Runner(command, in, out, err).Run();
}

}  // namespace embedding::client
