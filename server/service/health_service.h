// grpc.health.v1: Check and Watch.
//
// Not gRPC's own health service: in 1.51 that runs on callback threads of its own, and its open Watch calls would hold
// up every shutdown until the drain timeout.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/exec/mutex.h"
#include "server/service/stream.h"

namespace embedding {

// Thread-safe. Outlives the streams of its methods.
class HealthService {
 public:
  // names: those that are known ("" for the whole server), all NOT_SERVING at first.
  explicit HealthService(const std::vector<std::string>& names);

  // Adds the name if it is new.
  void SetServing(const std::string& name, bool serving);
  // The name is not known any more.
  void Remove(const std::string& name);
  // Everything is NOT_SERVING from now on.
  void BeginShutdown();

  // Check: SERVING or NOT_SERVING; NOT_FOUND for an unknown name. Watch: the state at once and at each change;
  // SERVICE_UNKNOWN for an unknown name.
  std::vector<StreamMethod> Methods();

 private:
  class CheckHandler;
  class WatchHandler;

  // A grpc::health::v1::HealthCheckResponse_ServingStatus.
  int StateOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddWatcher(const std::string& name, const StreamPtr& stream);
  void RemoveWatcher(const std::string& name, const StreamPtr& stream);

  Mutex mutex_;
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, StreamPtr>> watchers_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace embedding
