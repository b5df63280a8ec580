#include "server/service/embedding_service.h"

#include <utility>

#include "server/service/handlers.h"
#include "server/service/method.h"

namespace embedding {

std::vector<RpcMethod> EmbeddingServiceMethods(const ServiceContext& context) {
  const auto method = [&](Rpc rpc, void (*handle)(const ServiceContext&, CallPtr)) {
    return MakeMethod(rpc, *context.metrics, [context, handle](CallPtr call) { handle(context, std::move(call)); });
  };
  return {method(Rpc::kLookup, HandleLookup), method(Rpc::kSimilarity, HandleSimilarity),
          method(Rpc::kNearestNeighbour, HandleNearestNeighbour)};
}

}  // namespace embedding
