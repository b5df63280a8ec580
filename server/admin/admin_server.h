// The admin HTTP port: /metrics (Prometheus text format), /livez, /readyz.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

namespace embedding {

// GET and HEAD only: others are 405, other paths 404, with a one-line text body. A client has 3 seconds to send its
// request and takes one of 12 threads meanwhile, so that a few that hang hinder nobody. No file is served from the
// disk.
class AdminServer {
 public:
  // address: HOST:PORT with an IPv4 address or a name (its first IPv4 address counts); port 0: any. metrics: must
  // outlive the server. ready: asked for /readyz, from several threads: 200 "ready" or 503 "not ready"; /livez is
  // always 200 "alive". UNAVAILABLE: the address cannot be had; the message names it and the reason ("address already
  // in use"). An IPv6 address is such a case: Debian's civetweb is built without it. INVALID_ARGUMENT: not HOST:PORT.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(const std::string& address,
                                                            const prometheus::Collectable& metrics,
                                                            std::function<bool()> ready);
  // Returns when the requests being answered are; a client that hangs holds it up for at most 2 seconds.
  ~AdminServer();

  // As bound, such as "127.0.0.1:9464".
  const std::string& address() const { return address_; }

 private:
  struct Impl;
  explicit AdminServer(std::unique_ptr<Impl> impl, std::string address);
  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace embedding
