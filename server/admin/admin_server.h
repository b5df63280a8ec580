// The admin HTTP port: /metrics, /livez, /readyz.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

namespace embedding {

// GET and HEAD only: others are 405, other paths 404, with a one-line text body. Serves while a few clients hang.
class AdminServer {
 public:
  // address: HOST:PORT or [HOST6]:PORT; port 0: any. ready: asked for /readyz, 200 "ready" or 503 "not ready"; /livez is
  // always 200 "alive". UNAVAILABLE: the address cannot be had; the message names it and the reason ("address already in
  // use").
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(const std::string& address,
                                                            const prometheus::Collectable& metrics,
                                                            std::function<bool()> ready);
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
