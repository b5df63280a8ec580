#include "server/endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace embedding {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(EndpointTest, ReadsHostsNumbersAndSockets) {
  const auto name = ParseEndpoint("example.org:1", true);
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->host, "example.org");
  EXPECT_EQ(name->port, 1);
  const auto six = ParseEndpoint("[::1]:65535", true);
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 65535);
  const auto socket = ParseEndpoint("unix:/run/a b.sock", true);
  ASSERT_TRUE(socket.ok());
  EXPECT_EQ(socket->unix_path, "/run/a b.sock");
}

TEST(EndpointTest, RefusesEverythingElse) {
  for (const char* bad : {"", "host", ":1", "host:", "host:x", "host:-1", "host:65536", "::1:1", "[::1]", "[::1:1",
                          "::1]:1", "a b:1", "http://a:1", "[]:1", "unix:", "host:1:2"}) {
    EXPECT_FALSE(ParseEndpoint(bad, true).ok()) << bad;
  }
  EXPECT_FALSE(ParseEndpoint("unix:/a", false).ok());
  EXPECT_TRUE(ParseEndpoint(absl::StrCat("unix:/", std::string(106, 'a')), true).ok());
  EXPECT_FALSE(ParseEndpoint(absl::StrCat("unix:/", std::string(107, 'a')), true).ok());
}

TEST(EndpointTest, NumericAddressesResolveToThemselves) {
  EXPECT_THAT(*ResolveEndpoint(*ParseEndpoint("127.0.0.1:7", true)), ElementsAre("127.0.0.1:7"));
  EXPECT_THAT(*ResolveEndpoint(*ParseEndpoint("[0:0::1]:7", true)), ElementsAre("[::1]:7"));
  EXPECT_THAT(*ResolveEndpoint(*ParseEndpoint("0.0.0.0:0", true)), ElementsAre("0.0.0.0:0"));
  EXPECT_THAT(*ResolveEndpoint(*ParseEndpoint("localhost:7", true)), Contains("127.0.0.1:7"));
}

TEST(EndpointTest, SaysWhyAnAddressIsNotHad) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(WhyNotBound(absl::StrCat("127.0.0.1:", ntohs(address.sin_port))), "address already in use");
  close(fd);
  // 192.0.2.0/24 is kept for documentation (RFC 5737), so no interface has it.
  EXPECT_EQ(WhyNotBound("192.0.2.1:0"), "cannot assign requested address");
  EXPECT_EQ(WhyNotBound("unix:/nowhere/socket"), "no such file or directory");
}

}  // namespace
}  // namespace embedding
