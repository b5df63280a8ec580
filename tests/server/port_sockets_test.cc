#include "server/port_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

namespace embedding {
namespace {

// A listener and one connection to it, both ends in this process.
class Sockets {
 public:
  explicit Sockets(int family, const std::string& path = "") {
    listener = socket(family, SOCK_STREAM, 0);
    if (family == AF_UNIX) {
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
      Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      EXPECT_EQ(Connect(), 0);
    } else {
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      port = ntohs(reinterpret_cast<const sockaddr_in*>(&address_)->sin_port);
      EXPECT_EQ(Connect(), 0);
    }
    server = accept(listener, nullptr, nullptr);
  }
  ~Sockets() {
    for (const int fd : {listener, client, server}) close(fd);
  }

  // 0, or the error.
  int Connect() {
    const int fd = socket(address_.ss_family, SOCK_STREAM, 0);
    const int error = connect(fd, reinterpret_cast<const sockaddr*>(&address_), size_) == 0 ? 0 : errno;
    if (client < 0) {
      client = fd;
    } else {
      close(fd);
    }
    return error;
  }

  int listener = -1, client = -1, server = -1;
  uint16_t port = 0;

 private:
  void Listen(const sockaddr* address, socklen_t size) {
    ASSERT_EQ(bind(listener, address, size), 0);
    ASSERT_EQ(listen(listener, 8), 0);
    size_ = sizeof(address_);
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address_), &size_), 0);
  }
  sockaddr_storage address_ = {};
  socklen_t size_ = 0;
};

void ExpectEndsInOrder(Sockets& sockets, const PortSockets& port) {
  ASSERT_EQ(write(sockets.server, "last words", 10), 10);
  while (port.EndFlushedConnections() > 0) continue;
  char text[16];
  EXPECT_EQ(recv(sockets.client, text, sizeof(text), MSG_WAITALL), 10);  // what was sent, then the end
  EXPECT_EQ(read(sockets.client, text, sizeof(text)), 0);
  EXPECT_EQ(write(sockets.client, "x", 1), 1);  // the other direction is open
  EXPECT_EQ(read(sockets.server, text, sizeof(text)), 1);
}

TEST(PortSocketsTest, TcpConnectionsEndAfterWhatWasSent) {
  Sockets sockets(AF_INET);
  ExpectEndsInOrder(sockets, PortSockets::Tcp({sockets.port}));
}

TEST(PortSocketsTest, AConnectionWithBytesUnderWayIsLeftOpen) {
  Sockets sockets(AF_INET);
  const PortSockets port = PortSockets::Tcp({sockets.port});
  // More than both kernel buffers hold, to a peer that does not read.
  const std::string much(1 << 20, 'x');
  size_t sent = 0;
  for (ssize_t count; (count = send(sockets.server, much.data(), much.size(), MSG_DONTWAIT)) > 0;) {
    sent += static_cast<size_t>(count);
  }
  EXPECT_EQ(port.EndFlushedConnections(), 1);
  // Once the peer reads, all arrives, and then the end.
  size_t received = 0;
  std::string buffer(1 << 20, ' ');
  while (received < sent) received += static_cast<size_t>(read(sockets.client, buffer.data(), buffer.size()));
  while (port.EndFlushedConnections() > 0) continue;
  EXPECT_EQ(read(sockets.client, buffer.data(), buffer.size()), 0);
}

TEST(PortSocketsTest, OnlyAConnectionWithBytesUnderWayIsCut) {
  Sockets stuck(AF_INET);
  const PortSockets port = PortSockets::Tcp({stuck.port});
  port.CutUnflushedConnections();
  ASSERT_EQ(write(stuck.server, "x", 1), 1);  // it had nothing to send, so it is open
  const std::string much(1 << 20, 'x');
  while (send(stuck.server, much.data(), much.size(), MSG_DONTWAIT) > 0) continue;
  port.CutUnflushedConnections();
  EXPECT_EQ(send(stuck.server, "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(PortSocketsTest, ListenersRefuseAndConnectionsStay) {
  Sockets sockets(AF_INET), other(AF_INET);
  PortSockets::Tcp({sockets.port}).StopListening();
  EXPECT_EQ(sockets.Connect(), ECONNREFUSED);
  EXPECT_EQ(other.Connect(), 0);
  ASSERT_EQ(write(sockets.server, "x", 1), 1);
  char letter;
  EXPECT_EQ(read(sockets.client, &letter, 1), 1);
}

TEST(PortSocketsTest, UnixSocketsAreFoundByPath) {
  const std::string path = ::testing::TempDir() + "port_sockets_test." + std::to_string(getpid());
  {
    Sockets sockets(AF_UNIX, path);
    const PortSockets port = PortSockets::Unix(path);
    port.StopListening();
    EXPECT_EQ(sockets.Connect(), ECONNREFUSED);
    // The peer has read by the time that nothing is under way.
    ASSERT_EQ(write(sockets.server, "x", 1), 1);
    EXPECT_EQ(port.EndFlushedConnections(), 1);
    char text[16];
    EXPECT_EQ(read(sockets.client, text, sizeof(text)), 1);
    EXPECT_EQ(port.EndFlushedConnections(), 0);
    EXPECT_EQ(read(sockets.client, text, sizeof(text)), 0);
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace embedding
