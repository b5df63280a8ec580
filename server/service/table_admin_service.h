// LoadTable, UnloadTable, SetServingVersion.
#pragma once

#include <vector>

#include "server/service/call.h"
#include "server/service/embedding_service.h"
#include "server/service/table_manager.h"

namespace embedding {

// The methods of embedding.v1.TableAdminService. LoadTable is answered on the manager's thread, the others on the
// calling one. manager outlives every call.
std::vector<RpcMethod> TableAdminServiceMethods(const ServiceContext& context, TableManager* manager);

}  // namespace embedding
