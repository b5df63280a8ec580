// Owns the parts: builds them in the order of the data's way, drains and destroys in reverse.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/options.h"

namespace embedding {

// Load, Reload and Drain may run at the same time, Load and Drain once; all have returned before the destructor begins.
class Server {
 public:
  // Binds both ports; answers NOT_SERVING until Load is done. UNAVAILABLE names an address that cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();

  // Loads every table, then says SERVING. DATA_LOSS or INVALID_ARGUMENT: the first table that was refused. CANCELLED
  // when Drain was called meanwhile.
  absl::Status Load();
  // Begins to load every table again from its own path, at once or when Load is done; does not wait. A table that is
  // refused serves on as it is; the log says what became of each.
  void Reload();
  // NOT_SERVING at once, drain_delay, then no new calls; returns when the calls in flight are answered or drain_timeout
  // is over; what was answered in its last moment has 0.1 s more to leave. Logs the calls started and answered.
  void Drain();

  // As bound: "127.0.0.1:41234".
  std::string grpc_address() const;
  std::string admin_address() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding
