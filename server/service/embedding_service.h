// Lookup, Similarity and NearestNeighbour: admit, parse, call, write, count.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "server/exec/worker_pool.h"
#include "server/service/admission.h"
#include "server/service/call.h"
#include "server/service/limits.h"
#include "server/service/metrics.h"
#include "server/service/row_references.h"
#include "server/service/snapshot.h"
#include "server/service/stream.h"

namespace embedding {

// What the services work with. All outlive the services and every call.
struct ServiceContext {
  const TableRegistry* registry = nullptr;
  WorkerPool* pool = nullptr;  // Similarity and NearestNeighbour
  Metrics* metrics = nullptr;
  Admission* admission = nullptr;
  RequestLimits limits;
  // Plain rows in pieces of so many bytes or more are sent from where the table holds them: row_references.h.
  size_t referenced_piece_bytes = kReferencedPieceBytes;
};

// The methods of embedding.v1.EmbeddingService. Lookup is answered on the calling thread, unless it takes long; the
// others on the pool.
std::vector<RpcMethod> EmbeddingServiceMethods(const ServiceContext& context);
// Its LookupStream, answered on the calling thread; lookups that take long on the pool.
std::vector<StreamMethod> EmbeddingServiceStreams(const ServiceContext& context);

}  // namespace embedding
