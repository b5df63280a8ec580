// The calls of one streaming method on one completion queue.
#pragma once

#include <memory>
#include <set>

#include "server/exec/mutex.h"
#include "server/service/completion.h"
#include "server/service/stream.h"

namespace embedding {

// Thread-safe.
class StreamingMethod {
 public:
  // All borrowed things outlive this. index: the method's place in the service.
  StreamingMethod(StreamMethod method, RawService* service, int index, grpc::ServerCompletionQueue* queue,
                  LiveCount* live);
  // No call is parked or running by then.
  ~StreamingMethod();

  // Offers one more call to the library, after the server is built.
  void Park();
  // Ends every stream, and from now on every new one, with this status.
  void EndAll(const grpc::Status& status);

 private:
  class StreamCall;

  // OK while streams may go on.
  grpc::Status Enter(std::shared_ptr<StreamCall> call);
  void Leave(const std::shared_ptr<StreamCall>& call);

  const StreamMethod method_;
  RawService* const service_;
  const int index_;
  grpc::ServerCompletionQueue* const queue_;
  LiveCount* const live_;
  Mutex mutex_;
  std::set<std::shared_ptr<StreamCall>> open_ ABSL_GUARDED_BY(mutex_);
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embedding
