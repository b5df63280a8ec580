#include "server/service/table_admin_service.h"

#include <algorithm>
#include <utility>

#include "embedding/v1/embedding.pb.h"
#include "server/service/method.h"
#include "server/service/reply_message.h"
#include "server/service/request_body.h"
#include "server/service/table_info.h"

namespace embedding {
namespace {

template <typename Response>
void Answer(const ServiceContext& context, const absl::StatusOr<TableRecord>& record, const CallPtr& call) {
  if (!record.ok()) {
    call->Fail(record.status());
    return;
  }
  Response response;
  FillTableInfo(*record, response.mutable_table());
  ReplyWithMessage(context, response, call);
}

void HandleLoad(const ServiceContext& context, TableManager& manager, const CallPtr& call) {
  v1::LoadTableRequest request;
  if (absl::Status status = ParseRequest(call->request(), context.limits, &request); !status.ok()) {
    call->Fail(status);
    return;
  }
  TableManager::Order order = {request.name(), request.path(), {request.options().begin(), request.options().end()}};
  // A map has no order of its own; which option is named first in an error should not depend on the hash.
  std::sort(order.options.begin(), order.options.end());
  manager.Load(
      order, [call] { return call->stopped(); },
      [context, call](const absl::StatusOr<TableRecord>& record) {
        Answer<v1::LoadTableResponse>(context, record, call);
      });
}

void HandleUnload(const ServiceContext& context, TableManager& manager, const CallPtr& call) {
  v1::UnloadTableRequest request;
  if (absl::Status status = ParseRequest(call->request(), context.limits, &request); !status.ok()) {
    call->Fail(status);
    return;
  }
  Answer<v1::UnloadTableResponse>(context, manager.Unload(request.name(), request.version()), call);
}

void HandleSetServing(const ServiceContext& context, TableManager& manager, const CallPtr& call) {
  v1::SetServingVersionRequest request;
  if (absl::Status status = ParseRequest(call->request(), context.limits, &request); !status.ok()) {
    call->Fail(status);
    return;
  }
  Answer<v1::SetServingVersionResponse>(context, manager.SetServing(request.name(), request.version()), call);
}

}  // namespace

std::vector<RpcMethod> TableAdminServiceMethods(const ServiceContext& context, TableManager* manager) {
  const auto method = [&](Rpc rpc, auto handle) {
    return MakeMethod(rpc, *context.metrics,
                      [context, manager, handle](const CallPtr& call) { handle(context, *manager, call); });
  };
  return {method(Rpc::kLoadTable, &HandleLoad), method(Rpc::kUnloadTable, &HandleUnload),
          method(Rpc::kSetServingVersion, &HandleSetServing)};
}

}  // namespace embedding
