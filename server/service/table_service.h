// GetServerInfo, ListTables, GetTable, ResolveKeys.
#pragma once

#include <chrono>
#include <vector>

#include "server/service/call.h"
#include "server/service/embedding_service.h"

namespace embedding {

// The methods of embedding.v1.TableService, answered on the calling thread. started: when the server began, for uptime.
std::vector<RpcMethod> TableServiceMethods(const ServiceContext& context, BuildInfo build,
                                           std::chrono::steady_clock::time_point started);

}  // namespace embedding
