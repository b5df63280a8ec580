#include "server/port_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"

namespace embedding {
namespace {

// Whether nothing more can be sent; what was not acknowledged before that stays so.
bool HasEnded(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  // A unix socket has no such state; what was sent through it is gone once its peer is.
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return info.tcpi_state != TCP_ESTABLISHED && info.tcpi_state != TCP_CLOSE_WAIT;
}

// Bytes that the peer has not acknowledged.
bool HasMoreToSend(int fd) {
  int unsent = 0;
  return ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent > 0;
}

// A listening socket that nobody can find: it has a name of the kernel's choice. -1: not to be had.
int DeafListener() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_un unnamed = {};
  unnamed.sun_family = AF_UNIX;
  if (fd < 0 ||
      (bind(fd, reinterpret_cast<const sockaddr*>(&unnamed), sizeof(unnamed.sun_family)) == 0 && listen(fd, 1) == 0)) {
    return fd;
  }
  close(fd);
  return -1;
}

}  // namespace

void PortSockets::StopListening() const {
  const std::vector<int> listeners = Find(/*listening=*/true);
  const int deaf = DeafListener();
  for (const int fd : listeners) {
    // Put in the listener's place, which closes that. shutdown() would do too, but gRPC then logs an error.
    if (deaf < 0 || dup3(deaf, fd, O_CLOEXEC) < 0) shutdown(fd, SHUT_RDWR);
  }
  if (deaf >= 0) close(deaf);
}

int PortSockets::EndFlushedConnections() const {
  int unflushed = 0;
  for (const int fd : Find(/*listening=*/false)) {
    if (HasEnded(fd)) continue;
    if (HasMoreToSend(fd)) {
      ++unflushed;
    } else {
      shutdown(fd, SHUT_WR);
    }
  }
  return unflushed;
}

void PortSockets::CutUnflushedConnections() const {
  for (const int fd : Find(/*listening=*/false)) {
    if (HasMoreToSend(fd)) shutdown(fd, SHUT_RDWR);
  }
}

std::vector<int> PortSockets::Find(bool listening) const {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), &closedir);
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder.get())) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd) || !IsOurs(fd)) continue;
    int is_listening = 0;
    socklen_t size = sizeof(is_listening);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) == 0 && (is_listening != 0) == listening) {
      found.push_back(fd);
    }
  }
  return found;
}

bool PortSockets::IsOurs(int fd) const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  uint16_t port = 0;
  switch (address.ss_family) {
    case AF_UNIX: {
      const auto* local = reinterpret_cast<const sockaddr_un*>(&address);
      const size_t longest = size > offsetof(sockaddr_un, sun_path) ? size - offsetof(sockaddr_un, sun_path) : 0;
      return !path_.empty() && path_ == std::string(local->sun_path, strnlen(local->sun_path, longest));
    }
    case AF_INET:
      port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
      break;
    case AF_INET6:
      port = ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
      break;
    default:
      return false;
  }
  return std::find(ports_.begin(), ports_.end(), port) != ports_.end();
}

}  // namespace embedding
