// Answers -> stdout, in each of the output formats. Nothing here talks to a server.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "client/cli/flags.h"
#include "client/types.h"

namespace embedding::client {

struct RowName {
  int64_t id = 0;
  std::string key;       // empty: the row has none
  bool missing = false;  // there is no such row: id is what was asked for, or -1 for a key
};

// names: one per row asked for, of which the result lacks those that are missing if `skipped`; not looked at for json.
// Something missing is said to be so in every format.
void PrintLookup(const LookupResult& result, const std::vector<RowName>& names, bool skipped, Output output,
                 std::ostream& out);

// A pooled result: one vector for each bag.
void PrintBags(const LookupResult& result, Output output, std::ostream& out);

// left, right: what each vector is called; as many as the result has rows and columns. Of a result of means: what each
// side is called.
void PrintSimilarity(const SimilarityResult& result, const std::vector<std::string>& left,
                     const std::vector<std::string>& right, Output output, std::ostream& out);

// queries: what each query is called.
void PrintNeighbours(const NearestNeighbourResult& result, const std::vector<std::string>& queries, Output output,
                     std::ostream& out);

void PrintResolved(const ResolveKeysResult& result, Output output, std::ostream& out);

void PrintTables(const std::vector<TableInfo>& tables, Output output, std::ostream& out);
// One line per version: table, version, state, whether it serves, and why it was refused.
void PrintVersions(const std::vector<TableInfo>& tables, Output output, std::ostream& out);
// The answer of a call that changed a table; for people and as csv its versions.
void PrintChangedTable(const TableInfo& table, Output output, std::ostream& out);
void PrintInfo(const ServerInfo& info, Output output, std::ostream& out);

// status: "SERVING" and so on, as in grpc.health.v1.
void PrintHealth(const std::string& status, Output output, std::ostream& out);

}  // namespace embedding::client
