// What answers each rpc of embedding.v1.EmbeddingService.
#pragma once

#include "server/service/call.h"
#include "server/service/embedding_service.h"

namespace embedding {

// Answered on this thread.
void HandleLookup(const ServiceContext& context, CallPtr call);

// Answered on the pool. The context is copied; what it points to outlives the call.
void HandleSimilarity(const ServiceContext& context, CallPtr call);
void HandleNearestNeighbour(const ServiceContext& context, CallPtr call);

}  // namespace embedding
