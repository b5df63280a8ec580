// The calls of one unary method on one completion queue.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "server/exec/mutex.h"
#include "server/service/call.h"
#include "server/service/completion.h"
#include "server/service/metrics.h"

namespace embedding {

// Keeps some calls parked for callers to come, hands each that arrives to the handler, and uses its object again once
// the call is over. Thread-safe.
class UnaryMethod {
 public:
  struct Settings {
    std::chrono::milliseconds max_deadline;
    // Learn of callers that give up. Costs one more operation a call, so only where calls may take long.
    bool watch_cancellation;
  };

  // All borrowed things outlive this. index: the method's place in the service.
  UnaryMethod(const RpcMethod& method, Settings settings, RawService* service, int index,
              grpc::ServerCompletionQueue* queue, Metrics* metrics, LiveCount* live, DrainEpoch* epoch);
  // No call is parked or running by then.
  ~UnaryMethod();

  // Offers one more call to the library, after the server is built.
  void Park();

 private:
  class UnaryCall;

  void Recycle(UnaryCall* call);

  const RpcMethod method_;
  const Settings settings_;
  RawService* const service_;
  const int index_;
  grpc::ServerCompletionQueue* const queue_;
  Metrics* const metrics_;
  LiveCount* const live_;
  DrainEpoch* const epoch_;
  Mutex mutex_;
  std::vector<std::unique_ptr<UnaryCall>> unused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embedding
