// Where a server listens: HOST:PORT, [HOST6]:PORT or unix:PATH.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace embedding {

struct Endpoint {
  std::string unix_path;  // empty: TCP
  std::string host;       // without brackets; a name or a numeric address
  uint16_t port = 0;      // 0: any
};

// INVALID_ARGUMENT says what is allowed.
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text, bool allow_unix);

// The numeric addresses that a TCP host means, each as HOST:PORT or [HOST6]:PORT, without duplicates. UNAVAILABLE for a
// name that is not known.
absl::StatusOr<std::vector<std::string>> ResolveEndpoint(const Endpoint& endpoint);

// Makes way for a unix socket: removes what a server that has died left there. UNAVAILABLE when a server answers at the
// path, when something else than a socket is there, or when it cannot be removed.
absl::Status ClearUnixSocket(const std::string& path);

// Why listening at a numeric HOST:PORT or at unix:PATH fails now, in words such as "address already in use"; "unknown
// reason" when it does not.
std::string WhyNotBound(const std::string& numeric);

}  // namespace embedding
