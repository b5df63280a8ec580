// The sockets of one port of this process, found by asking the kernel: how a server lets go of its callers.
//
// gRPC's shutdown ends a call that arrives between its beginning and the caller's hearing of it with CANCELLED, which
// callers do not retry. So before it the listeners are closed, the answers flushed and the connections' sending sides
// ended: whatever a caller still sends finds a closed connection, which is UNAVAILABLE.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace embedding {

class PortSockets {
 public:
  // A TCP port of any local address, or a unix socket's path.
  static PortSockets Tcp(std::vector<uint16_t> ports) { return PortSockets(std::move(ports), ""); }
  static PortSockets Unix(std::string path) { return PortSockets({}, std::move(path)); }

  // From now on connecting is refused. Connections that are not accepted yet are reset.
  void StopListening() const;
  // Ends the sending side of each connection whose peer has acknowledged all that was sent: the peer then reads the
  // end. Gives the number of connections that have more to send; gRPC holds bytes back only while the kernel's buffer
  // is full, so one that has none has sent its answers.
  int EndFlushedConnections() const;
  // Ends both sides of each connection that has more to send: its peer does not read, or too slowly to wait for.
  void CutUnflushedConnections() const;

 private:
  PortSockets(std::vector<uint16_t> ports, std::string path) : ports_(std::move(ports)), path_(std::move(path)) {}

  // Descriptors of this process that are bound to the port, listening or connected.
  std::vector<int> Find(bool listening) const;
  bool IsOurs(int fd) const;

  std::vector<uint16_t> ports_;
  std::string path_;  // empty: TCP
};

}  // namespace embedding
