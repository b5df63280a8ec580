// The command line: words and flags -> Command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/client_options.h"
#include "client/types.h"

namespace embedding::client {

enum class CommandKind {
  kLookup,
  kSimilarity,
  kNeighbours,
  kAnalogy,
  kOddOneOut,
  kResolve,
  kTables,
  kVersions,
  kReload,
  kRollback,
  kUnload,
  kInfo,
  kHealth
};

// table: for people. json: one document, the protobuf JSON mapping of the answer. jsonl: one document per row, pair,
// query or table. csv: a header line, RFC 4180.
enum class Output { kTable, kJson, kJsonl, kCsv };

// Which of the named vectors Similarity compares: the first with each of the others, 1st with 2nd, 3rd with 4th and so
// on, or each with each.
enum class Pairing { kFirst, kPairwise, kAllPairs };

// One command as it was written; words are not yet read as ids or vectors.
struct Command {
  CommandKind kind = CommandKind::kInfo;
  ClientOptions client;
  bool deadline_given = false;
  Output output = Output::kTable;
  std::string table;
  std::vector<std::string> keys;      // "-": one per line of stdin
  std::vector<std::string> ids;       // "0-9,17", "-"
  std::vector<std::string> vectors;   // "1,0.5,-2", "-"
  std::vector<std::string> positive;  // of analogy, beside the expression in keys
  std::vector<std::string> negative;
  int32_t k = 10;
  Metric metric = Metric::kTableDefault;
  SearchMode mode = SearchMode::kExact;
  int32_t effort = 0;
  Pairing pairing = Pairing::kFirst;
  bool include_inputs = false;
  bool return_vectors = false;
  std::vector<std::string> allow;  // as ids
  std::vector<std::string> deny;
  bool allow_given = false;
  std::string rows;  // "A:B"; empty: all
  std::optional<float> threshold;
  MissingPolicy missing = MissingPolicy::kError;
  std::optional<PoolingMode> pooling;  // of lookup, as all up to dimensions
  std::vector<int64_t> offsets;        // empty: one bag
  std::vector<float> weights;
  bool normalize = false;
  int32_t dimensions = 0;
  Reduce reduce = Reduce::kNone;
  std::optional<std::string> prefix;  // of resolve
  int32_t limit = 10;                 // of resolve
  std::string path;                   // of reload
  std::vector<std::string> options;   // of reload: "key=value"
  uint64_t version = 0;               // of rollback and unload; 0: not given
  std::string service;                // of health
  bool watch = false;
};

// Either a command, or the end of the program: text for stdout (help, version) or stderr (usage error), and the exit
// code.
struct ParsedLine {
  std::optional<Command> command;
  int exit_code = 0;
  std::string out;
  std::string err;
};

// arguments: without the program's name. Reads EMBEDDING_ADDRESS. No exception leaves it.
ParsedLine ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace embedding::client
