#include "server/admin/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

absl::Status BadForm(const std::string& address) {
  return absl::InvalidArgumentError(
      absl::StrCat("admin address is \"", address, "\", needed is HOST:PORT with a port from 0 to 65535"));
}

}  // namespace

absl::StatusOr<sockaddr_in> ResolveListenAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return BadForm(address);
  const std::string host = address.substr(0, colon);
  const std::string port_text = address.substr(colon + 1);
  uint32_t port = 0;
  const bool digits = port_text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !absl::SimpleAtoi(port_text, &port) || port > 65535) return BadForm(address);
  if (host.front() == '[' && host.back() == ']') {
    return absl::UnavailableError(absl::StrCat("admin address is \"", address,
                                               "\", but this build's HTTP library has no IPv6; use an IPv4 address"));
  }
  if (host.find(':') != std::string::npos) return BadForm(address);

  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on admin address ", address, ": ", gai_strerror(error)));
  }
  sockaddr_in resolved{};
  std::memcpy(&resolved, found->ai_addr, sizeof(resolved));
  freeaddrinfo(found);
  resolved.sin_port = htons(static_cast<uint16_t>(port));
  return resolved;
}

std::string ListenAddressText(const sockaddr_in& address) {
  char host[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host));
  return absl::StrCat(host, ":", ntohs(address.sin_port));
}

std::string WhyNotBound(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int error = fd == -1 ? errno : 0;
  if (fd != -1) {
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || listen(fd, 1) != 0)
      error = errno;
    close(fd);
  }
  if (error == 0) return "";
  std::string text = std::generic_category().message(error);
  text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
  return text;
}

void WakeListener(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd == -1) return;
  // Its success does not matter: the next try follows.
  static_cast<void>(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  close(fd);
}

}  // namespace embedding
