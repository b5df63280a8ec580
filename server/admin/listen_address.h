// HOST:PORT as the admin port takes it.
#pragma once

#include <netinet/in.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace embedding {

// The IPv4 address that HOST:PORT means; a name is looked up. INVALID_ARGUMENT: not of this form, or a port over 65535.
// UNAVAILABLE: an unknown name or an IPv6 address. Messages name the address.
absl::StatusOr<sockaddr_in> ResolveListenAddress(const std::string& address);

// Such as "127.0.0.1:9464".
std::string ListenAddressText(const sockaddr_in& address);

// Why listening there fails now, in words ("address already in use"); empty when it does not.
std::string WhyNotBound(const sockaddr_in& address);

// Connects to it and goes, so that whoever waits there for a connection wakes. Never waits.
void WakeListener(const sockaddr_in& address);

}  // namespace embedding
