// Answers as JSON documents: the protobuf JSON mapping of the wire's messages, as grpcurl -emit-defaults prints them.
// Tensors carry `values`, as under ENCODING_FLOATS.
#pragma once

#include <string>
#include <vector>

#include "client/types.h"

namespace embedding::client {

std::string ToJson(const LookupResult& result);
std::string ToJson(const SimilarityResult& result);
std::string ToJson(const NearestNeighbourResult& result);
std::string ToJson(const ResolveKeysResult& result);
std::string ToJson(const ServerInfo& info, bool pretty);
std::string ToJson(const TableInfo& table);                // a TableInfo, on one line
std::string ToJson(const std::vector<TableInfo>& tables);  // a ListTablesResponse

}  // namespace embedding::client
