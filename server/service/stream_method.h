// The calls of one streaming method on one completion queue.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "server/exec/mutex.h"
#include "server/service/completion.h"
#include "server/service/metrics.h"
#include "server/service/stream.h"

namespace embedding {

// Collects the answers of one polling thread while there is more to be done at once, so that several leave in one write
// to the socket. The thread creates one, and calls Flush when its queue has nothing ready.
class HeldAnswers {
 public:
  HeldAnswers();
  ~HeldAnswers();
  HeldAnswers(const HeldAnswers&) = delete;
  HeldAnswers& operator=(const HeldAnswers&) = delete;

  bool empty() const { return streams_.empty(); }
  void Flush();

 private:
  friend class StreamingMethod;
  std::vector<std::shared_ptr<Stream>> streams_;
};

// Thread-safe.
class StreamingMethod {
 public:
  // All borrowed things outlive this. index: the method's place in the service.
  StreamingMethod(StreamMethod method, RawService* service, int index, grpc::ServerCompletionQueue* queue,
                  Metrics* metrics, LiveCount* live, DrainEpoch* epoch);
  // No call is parked or running by then.
  ~StreamingMethod();

  // Offers one more call to the library, after the server is built.
  void Park();
  // Ends every stream, and from now on every new one, with this status, after the answers to the messages that were
  // taken.
  void EndAll(const grpc::Status& status);

 private:
  friend class HeldAnswers;
  class StreamCall;

  // OK while streams may go on.
  grpc::Status Enter(std::shared_ptr<StreamCall> call);
  void Leave(const std::shared_ptr<StreamCall>& call);

  const StreamMethod method_;
  RawService* const service_;
  const int index_;
  grpc::ServerCompletionQueue* const queue_;
  Metrics* const metrics_;
  LiveCount* const live_;
  DrainEpoch* const epoch_;
  Mutex mutex_;
  std::set<std::shared_ptr<StreamCall>> open_ ABSL_GUARDED_BY(mutex_);
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embedding
