#include "client/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/file_commands.h"
#include "client/cli/revision.h"
#include "client/cli/suggest.h"

namespace embedding::client {
namespace {

constexpr int kUsage = 2;

struct CommandName {
  const char* name;
  CommandKind kind;
  const char* summary;
};

constexpr CommandName kCommands[] = {
    {"lookup", CommandKind::kLookup, "Rows of the table, by key or id"},
    {"similarity", CommandKind::kSimilarity, "Scores between rows or vectors"},
    {"neighbours", CommandKind::kNeighbours, "The rows closest to each row or vector"},
    {"analogy", CommandKind::kAnalogy, "The rows closest to king - man + woman"},
    {"odd-one-out", CommandKind::kOddOneOut, "The word that does not match the others"},
    {"resolve", CommandKind::kResolve, "Keys to ids, ids to keys, keys with a prefix"},
    {"tables", CommandKind::kTables, "What the server holds"},
    {"versions", CommandKind::kVersions, "Versions of the tables: which serves, which are in memory"},
    {"reload", CommandKind::kReload, "Load a table again, or from another file, and serve it"},
    {"rollback", CommandKind::kRollback, "Serve an earlier version that is in memory"},
    {"unload", CommandKind::kUnload, "Drop a table, or a version of one, from memory"},
    {"info", CommandKind::kInfo, "Version, limits and SIMD target of the server"},
    {"health", CommandKind::kHealth, "Whether the server answers requests"},
};

constexpr char kSpellings[] = R"(
Rows
  Words are keys, always. Ids go into --ids: "5", "0-9,17" (both ends included). "-" reads keys, or after
  --ids ids, or after --vector vectors from stdin, one per line; empty lines are skipped. Write "--"
  before a key that starts with "-".
)";

constexpr char kExitCodes[] = R"(
Exit codes
  0 done; 1 output could not be written; 2 wrong usage; 3 no table in the file (convert, inspect); 4 not
  serving (health); 64+N the call ended with gRPC status N (69 not found, 78 unavailable, 68 deadline
  exceeded, ...); 130 interrupted
)";

std::string RootHelp() {
  std::string text =
      "Asks an embedding server for rows, scores and neighbours.\n\n"
      "Usage: embedding-cli [-a ADDRESS] COMMAND [words] [flags, in any order]\n\nCommands\n";
  for (const CommandName& command : kCommands) {
    absl::StrAppend(&text, "  ", command.name, std::string(12 - std::string(command.name).size(), ' '), command.summary,
                    "\n");
  }
  text += "\nCommands on files, which ask no server\n";
  for (const cli::FileCommandName& command : cli::kFileCommands) {
    absl::StrAppend(&text, "  ", command.name, std::string(12 - std::string(command.name).size(), ' '), command.summary,
                    "\n");
  }
  absl::StrAppend(&text, R"(
Flags of every command that asks a server
  -a, --address ADDRESS   HOST:PORT or unix:PATH [default: 127.0.0.1:50051] [env: EMBEDDING_ADDRESS]
  --deadline DURATION     for the whole command, such as 500ms or 2s [default: 5s; reload: 1h]
  --output FORMAT         table, json (the protobuf JSON mapping of the answer), jsonl or csv [default: table]
  -h, --help              of a command: its own flags
  --version
)",
                  kSpellings, R"(
Examples
  embedding-cli lookup robot arm
  embedding-cli lookup --ids 0-9,17 --output csv
  embedding-cli lookup king man crown --pooling mean --missing skip --normalize
  embedding-cli similarity robot arm box tool
  embedding-cli neighbours king --k 10
  embedding-cli neighbours --vector 0.1,-2,3 --metric dot --output json
  embedding-cli neighbours king --rows :1000 --deny 5,17 --threshold 0.6
  embedding-cli analogy king - man + woman
  embedding-cli odd-one-out france germany piano italy
  embedding-cli resolve --prefix king
  embedding-cli convert glove.txt glove.safetensors --dtype F16
  embedding-cli inspect model.safetensors,tensor=embeddings.weight
)",
                  kExitCodes);
  return text;
}

// The parser of one command; fills `command` while parsing.
class CommandParser {
 public:
  CommandParser(const CommandName& name, Command& command) : app_(name.summary, ""), command_(command) {
    command_.kind = name.kind;
    app_.name(absl::StrCat("embedding-cli ", name.name));
    app_.add_option("-a,--address", command_.client.address, "HOST:PORT or unix:PATH")
        ->envname("EMBEDDING_ADDRESS")
        ->capture_default_str();
    if (name.kind == CommandKind::kReload) deadline_ = "1h";  // a large file takes a while
    app_.add_option("--deadline", deadline_, "For the whole command, such as 500ms or 2s")->capture_default_str();
    app_.add_option("--output", output_, "Format of stdout")
        ->check(CLI::IsMember({"table", "json", "jsonl", "csv"}))
        ->capture_default_str();
    switch (name.kind) {
      case CommandKind::kLookup:
        AddTable();
        AddRows("Keys of the rows");
        AddLookup();
        break;
      case CommandKind::kSimilarity:
        AddTable();
        AddRows("Keys of the rows");
        AddVectors("With rows: the vectors are the left side, the rows the right side.");
        AddMetric();
        AddMissing("zero", "of a row that does not exist: fail, or let it be a vector of zeros");
        app_.add_option(
                "--reduce", reduce_,
                "mean: one score, between the means of both sides (by --layout: the first against the others, or "
                "every second one against the rest)")
            ->check(CLI::IsMember({"mean"}));
        app_.add_option("--layout", pairing_,
                        "first: the first with each of the others (or each vector with each row); pairwise: 1st with "
                        "2nd, 3rd with 4th (or vector i with row i); all-pairs: each with each")
            ->check(CLI::IsMember({"first", "pairwise", "all-pairs"}))
            ->capture_default_str();
        break;
      case CommandKind::kNeighbours:
        AddTable();
        AddRows("Keys of the rows whose neighbours are wanted");
        AddVectors("Instead of rows.");
        AddSearch("Let a row be its own neighbour");
        AddMode();
        break;
      case CommandKind::kAnalogy:
        AddTable();
        app_.add_option("words", command_.keys, "Keys with + or - between them: king - man + woman");
        app_.add_option("--positive", command_.positive, "Keys that are added, as unit vectors");
        app_.add_option("--negative", command_.negative, "Keys that are subtracted, as unit vectors");
        AddSearch("Let the words themselves be found");
        AddMode();
        break;
      case CommandKind::kOddOneOut:
        AddTable();
        app_.add_option("words", command_.keys, "Three keys or more");
        break;
      case CommandKind::kResolve:
        AddTable();
        AddRows("Keys whose ids are wanted");
        app_.add_option("--prefix", prefix_, "Instead: the keys that start with this, in byte order");
        app_.add_option("--limit", command_.limit, "Of --prefix: keys at most")
            ->check(CLI::Range(1, 10000))
            ->capture_default_str();
        break;
      case CommandKind::kTables:
        AddTable();
        break;
      case CommandKind::kVersions:
        app_.add_option("table", command_.table, "Name of the table; all without it");
        break;
      case CommandKind::kReload:
        AddNeededTable();
        app_.add_option("--path", command_.path,
                        "File or folder of versions within the server's --table-root; without it the table's own");
        app_.add_option("--option", command_.options,
                        "key=value, as after the path of the server's --table, such as vocab=words.txt; may be "
                        "repeated. Without --path they replace the table's own one by one; with it, only they hold")
            ->allow_extra_args(false);
        break;
      case CommandKind::kRollback:
        AddNeededTable();
        AddVersion("Which to serve; without it the highest one in memory below the one that serves");
        break;
      case CommandKind::kUnload:
        AddNeededTable();
        AddVersion("Drop this version alone; without it the whole table");
        break;
      case CommandKind::kInfo:
        break;
      case CommandKind::kHealth:
        app_.add_option("--service", command_.service,
                        "embedding.v1.EmbeddingService or table/NAME; without it the server as a whole");
        app_.add_flag("--watch", command_.watch,
                      "Print each change until interrupted, or until --deadline if that is given");
        break;
    }
    const bool names_rows = name.kind <= CommandKind::kNeighbours || name.kind == CommandKind::kResolve;
    app_.footer(names_rows ? absl::StrCat(kSpellings, kExitCodes) : kExitCodes);
  }

  CLI::App& app() { return app_; }

  // Reads the arguments that follow the command's name.
  ParsedLine Parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      return {std::nullopt, 0, app_.help(), ""};
    } catch (const CLI::ExtrasError&) {
      return UsageError(Unexpected());
    } catch (const CLI::Error& error) {
      return UsageError(error.what());
    }
    return Finish();
  }

 private:
  void AddTable() {
    app_.add_option("--table", command_.table, "Name of the table; not needed where there is only one");
  }

  void AddNeededTable() { app_.add_option("table", command_.table, "Name of the table")->required(); }

  void AddVersion(const char* what) {
    app_.add_option("--version", command_.version, what)
        ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()));
  }

  void AddRows(const char* what) {
    app_.add_option("keys", command_.keys, what);
    app_.add_option("--ids", command_.ids, "Rows by position: 5 or 0-9,17; may be repeated")->allow_extra_args(false);
  }

  void AddVectors(const char* role) {
    app_.add_option("--vector", command_.vectors, absl::StrCat("Numbers with commas; may be repeated. ", role))
        ->allow_extra_args(false);
  }

  void AddLookup() {
    app_.add_option(
            "--missing", missing_,
            "What stands for a row that does not exist; default-row is the one that the table names; skip leaves "
            "it out")
        ->check(CLI::IsMember({"error", "zero", "default-row", "skip"}))
        ->capture_default_str();
    app_.add_option("--pooling", pooling_, "Make each bag of rows one vector; without --offsets all rows are one bag")
        ->check(CLI::IsMember({"sum", "mean", "max"}));
    app_.add_option("--offsets", command_.offsets, "With --pooling, where each bag begins: 0,3,5")
        ->delimiter(',')
        ->allow_extra_args(false);
    app_.add_option("--weights", command_.weights, "With --pooling sum, one number for each row: 1,0.5,-2")
        ->delimiter(',')
        ->allow_extra_args(false);
    app_.add_flag("--normalize", command_.normalize, "Make each vector of the answer a unit vector");
    app_.add_option("--dimensions", command_.dimensions, "Only the first so many numbers of each vector; 0: all")
        ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()));
  }

  void AddMetric() {
    app_.add_option("--metric", metric_, "How close; without it as the table is set")
        ->check(CLI::IsMember({"cosine", "dot", "euclidean"}));
  }

  void AddMode() {
    app_.add_option("--mode", mode_, "approximate: by the table's index, sooner and nearly always the closest")
        ->check(CLI::IsMember({"exact", "approximate"}))
        ->capture_default_str();
    app_.add_option("--effort", command_.effort,
                    "With --mode approximate: candidates kept while looking; more find more. 0: the server's choice")
        ->check(CLI::Range(0, 65536));
  }

  void AddMissing(const char* other, const char* what) {
    app_.add_option("--missing", missing_, absl::StrCat("What becomes ", what))
        ->check(CLI::IsMember({"error", other}))
        ->capture_default_str();
  }

  // What every search for neighbours takes.
  void AddSearch(const char* include_inputs) {
    AddMetric();
    app_.add_option("-k,--k", command_.k, "Neighbours of each query")
        ->check(CLI::Range(1, std::numeric_limits<int32_t>::max()))
        ->capture_default_str();
    app_.add_flag("--include-inputs", command_.include_inputs, include_inputs);
    app_.add_flag("--vectors", command_.return_vectors, "Show the neighbours' vectors too");
    app_.add_option("--allow", command_.allow, "Only rows with these ids: 5 or 0-9,17; may be repeated")
        ->allow_extra_args(false);
    app_.add_option("--deny", command_.deny, "No rows with these ids; may be repeated")->allow_extra_args(false);
    app_.add_option("--rows", command_.rows, "Only rows A <= id < B, as A:B, A: or :B");
    app_.add_option("--threshold", threshold_, "Only rows at least this close");
    AddMissing("skip", "of a query that names a row that does not exist: fail, or an empty result");
  }

  ParsedLine Finish() {
    static const std::map<std::string, Output> kOutputs = {
        {"table", Output::kTable}, {"json", Output::kJson}, {"jsonl", Output::kJsonl}, {"csv", Output::kCsv}};
    static const std::map<std::string, Metric> kMetrics = {{"", Metric::kTableDefault},
                                                           {"cosine", Metric::kCosine},
                                                           {"dot", Metric::kDot},
                                                           {"euclidean", Metric::kEuclidean}};
    static const std::map<std::string, Pairing> kPairings = {
        {"first", Pairing::kFirst}, {"pairwise", Pairing::kPairwise}, {"all-pairs", Pairing::kAllPairs}};
    static const std::map<std::string, MissingPolicy> kPolicies = {{"error", MissingPolicy::kError},
                                                                   {"zero", MissingPolicy::kZero},
                                                                   {"default-row", MissingPolicy::kDefaultRow},
                                                                   {"skip", MissingPolicy::kSkip}};
    static const std::map<std::string, PoolingMode> kModes = {
        {"sum", PoolingMode::kSum}, {"mean", PoolingMode::kMean}, {"max", PoolingMode::kMax}};
    command_.missing = kPolicies.at(missing_);
    if (!pooling_.empty()) command_.pooling = kModes.at(pooling_);
    if (!command_.pooling && !command_.offsets.empty()) return UsageError("--offsets needs --pooling sum, mean or max");
    if (!command_.weights.empty() && command_.pooling != PoolingMode::kSum) {
      return UsageError("--weights needs --pooling sum");
    }
    command_.output = kOutputs.at(output_);
    command_.metric = kMetrics.at(metric_);
    if (mode_ == "approximate") command_.mode = SearchMode::kApproximate;
    if (command_.effort != 0 && command_.mode == SearchMode::kExact) {
      return UsageError("--effort needs --mode approximate");
    }
    command_.pairing = kPairings.at(pairing_);
    if (!reduce_.empty()) command_.reduce = Reduce::kMean;
    if (Given("--threshold")) command_.threshold = threshold_;
    if (Given("--prefix")) command_.prefix = prefix_;
    command_.allow_given = Given("--allow");
    command_.deadline_given = app_.count("--deadline") > 0;
    absl::Duration deadline;
    if (!absl::ParseDuration(deadline_, &deadline) || deadline < absl::Milliseconds(1) || deadline > absl::Hours(24)) {
      return UsageError(
          absl::StrCat("--deadline: \"", deadline_, "\" is no duration in 1ms..24h, such as 500ms or 2s"));
    }
    command_.client.deadline = std::chrono::milliseconds(absl::ToInt64Milliseconds(deadline));
    return {command_, 0, "", ""};
  }

  // Whether the flag is one of this command's and on the line.
  bool Given(const char* flag) const {
    const CLI::Option* const option = app_.get_option_no_throw(flag);
    return option != nullptr && option->count() > 0;
  }

  std::string Unexpected() const {
    for (const std::string& word : app_.remaining()) {
      if (word.size() < 2 || word[0] != '-') continue;
      const std::string flag = word.substr(0, word.find('='));
      std::vector<std::string> known;
      for (const CLI::Option* option : app_.get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
      const std::string suggestion = Suggestion(flag, known);
      return absl::StrCat("unknown flag ", flag, suggestion.empty() ? "" : "; did you mean " + suggestion + "?");
    }
    return absl::StrCat("unexpected word \"", app_.remaining().empty() ? "" : app_.remaining().front(), "\"");
  }

  ParsedLine UsageError(const std::string& message) const {
    return {std::nullopt, kUsage, "", absl::StrCat("embedding-cli: ", message, "\nSee ", app_.get_name(), " --help\n")};
  }

  CLI::App app_;
  Command& command_;
  std::string deadline_ = "5s";
  std::string output_ = "table";
  std::string metric_;
  std::string mode_ = "exact";
  std::string pairing_ = "first";
  std::string missing_ = "error";
  std::string reduce_;
  std::string prefix_;
  float threshold_ = 0;
  std::string pooling_;
};

// Flags of any command that are followed by a value.
std::vector<std::string> FlagsWithValue() {
  std::vector<std::string> flags;
  for (const CommandName& name : kCommands) {
    Command command;
    CommandParser parser(name, command);
    for (const CLI::Option* option : parser.app().get_options()) {
      if (option->get_items_expected_min() == 0) continue;
      for (const std::string& long_name : option->get_lnames()) flags.push_back("--" + long_name);
      for (const std::string& short_name : option->get_snames()) flags.push_back("-" + short_name);
    }
  }
  return flags;
}

// The position of the command's name: the first word that is neither a flag nor a flag's value.
size_t CommandPosition(const std::vector<std::string>& arguments) {
  const std::vector<std::string> with_value = FlagsWithValue();
  size_t i = 0;
  while (i < arguments.size() && arguments[i].size() > 1 && arguments[i][0] == '-') {
    i += std::count(with_value.begin(), with_value.end(), arguments[i]) > 0 ? 2 : 1;
  }
  return std::min(i, arguments.size());
}

bool IsHelp(const std::string& word) { return word == "-h" || word == "--help"; }

}  // namespace

ParsedLine ParseCommandLine(const std::vector<std::string>& arguments) {
  const size_t position = CommandPosition(arguments);
  if (position == arguments.size()) {
    if (std::any_of(arguments.begin(), arguments.end(), IsHelp)) return {std::nullopt, 0, RootHelp(), ""};
    if (std::count(arguments.begin(), arguments.end(), "--version") > 0) {
      return {std::nullopt, 0, absl::StrCat("embedding-cli ", EMBEDDING_VERSION, " (", EMBEDDING_REVISION, ")\n"), ""};
    }
    return {std::nullopt, kUsage, "", absl::StrCat("embedding-cli: a command is needed\n\n", RootHelp())};
  }
  std::string word = arguments[position];
  if (word == "neighbors") word = "neighbours";
  for (const CommandName& name : kCommands) {
    if (word != name.name) continue;
    std::vector<std::string> rest = arguments;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(position));
    Command command;
    return CommandParser(name, command).Parse(std::move(rest));
  }
  std::vector<std::string> names;
  for (const CommandName& name : kCommands) names.push_back(name.name);
  for (const cli::FileCommandName& name : cli::kFileCommands) names.push_back(name.name);
  const std::string suggestion = Suggestion(word, names);
  return {std::nullopt, kUsage, "",
          absl::StrCat("embedding-cli: unknown command \"", word, "\"",
                       suggestion.empty() ? "" : "; did you mean " + suggestion + "?", "\nSee embedding-cli --help\n")};
}

}  // namespace embedding::client
