#include "server/admin/admin_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/metric_family.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class OneGauge final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily family{"answer", "Of a test.", prometheus::MetricType::Gauge, {}};
    family.metric.emplace_back().gauge.value = 42;
    return {family};
  }
};

// One connection to the admin port; reads give up after 20 s.
class Connection {
 public:
  explicit Connection(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval timeout{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    inet_pton(AF_INET, address.substr(0, address.rfind(':')).c_str(), &to.sin_addr);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << address;
  }
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;

  bool Send(const std::string& text) const {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Until the server closes.
  std::string Receive() const {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = recv(fd_, buffer, sizeof(buffer), 0)) > 0;) text.append(buffer, static_cast<size_t>(n));
    return text;
  }

 private:
  const int fd_;
};

class AdminServerTest : public ::testing::Test {
 protected:
  AdminServerTest() {
    auto server = AdminServer::Start("127.0.0.1:0", gauge_, [this] { return ready_.load(); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string Ask(const std::string& request) const {
    const Connection connection(server_->address());
    connection.Send(request);
    return connection.Receive();
  }
  std::string Ask(const std::string& method, const std::string& path) const {
    return Ask(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }

  OneGauge gauge_;
  std::atomic<bool> ready_{false};
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminServerTest, TellsThePortThatItGot) {
  EXPECT_THAT(server_->address(), AllOf(StartsWith("127.0.0.1:"), Not(EndsWith(":0"))));
}

TEST_F(AdminServerTest, MetricsAreInPrometheusTextFormat) {
  EXPECT_THAT(Ask("GET", "/metrics"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                    HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
                    HasSubstr("\r\nCache-Control: no-store\r\n"),
                    EndsWith("\r\n\r\n# HELP answer Of a test.\n# TYPE answer gauge\nanswer 42\n")));
}

TEST_F(AdminServerTest, LivezIsAlwaysAlive) {
  EXPECT_THAT(Ask("GET", "/livez"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nalive\n")));
}

TEST_F(AdminServerTest, ReadyzFollowsTheServer) {
  EXPECT_THAT(Ask("GET", "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 Service Unavailable\r\n"), EndsWith("\r\n\r\nnot ready\n")));
  ready_ = true;
  EXPECT_THAT(Ask("GET", "/readyz"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nready\n")));
}

TEST_F(AdminServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  EXPECT_THAT(Ask("HEAD", "/livez"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("\r\nContent-Length: 6\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(AdminServerTest, QueryIsNoPartOfThePath) {
  EXPECT_THAT(Ask("GET", "/livez?verbose=1"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(AdminServerTest, OtherMethodsAreNotAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"}) {
    EXPECT_THAT(Ask(method, "/metrics"),
                AllOf(StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"), HasSubstr("\r\nAllow: GET, HEAD\r\n")))
        << method;
  }
}

TEST_F(AdminServerTest, OtherPathsAreNotFoundAndReachNoFile) {
  for (const std::string path : {"/", "/metrics/", "/metrics/x", "/livezz", "/etc/passwd", "/../../etc/passwd",
                                 "/%2e%2e/%2e%2e/etc/passwd", "//etc", "/metrics%00"}) {
    const std::string answer = Ask("GET", path);
    EXPECT_THAT(answer, AllOf(HasSubstr("HTTP/1.1 4"), Not(HasSubstr("200 OK")), Not(HasSubstr("root:")))) << path;
  }
  EXPECT_THAT(Ask("GET", "/"), EndsWith("\r\n\r\nnot found; there are /metrics, /livez and /readyz\n"));
  EXPECT_THAT(Ask("GET", "/" + std::string(8000, '/')), HasSubstr("HTTP/1.1 404"));
}

TEST_F(AdminServerTest, OversizedAndMalformedRequestsAreRefused) {
  EXPECT_THAT(Ask("GET /livez HTTP/1.1\r\nX: " + std::string(100000, 'x') + "\r\n\r\n"), Not(HasSubstr("200 OK")));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), Not(HasSubstr("200 OK")));
  EXPECT_THAT(Ask("GET", "/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

class HangingClientsTest : public AdminServerTest, public ::testing::WithParamInterface<int> {};

TEST_P(HangingClientsTest, OthersAreServedMeanwhile) {
  std::vector<std::unique_ptr<Connection>> hanging;
  for (int i = 0; i < GetParam(); ++i) {
    hanging.push_back(std::make_unique<Connection>(server_->address()));
    EXPECT_TRUE(hanging.back()->Send("GET /metrics HTTP/1.1\r\nHost: "));
  }
  EXPECT_THAT(Ask("GET", "/metrics"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Ask("GET", "/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

// More than there are threads: served once the first have used up their time.
INSTANTIATE_TEST_SUITE_P(Clients, HangingClientsTest, ::testing::Values(4, 8, 16));

TEST_F(AdminServerTest, HalfARequestIsCutAfterItsTime) {
  const Connection half(server_->address());
  half.Send("GET /metrics HTTP/1.1\r\nHost: ");
  EXPECT_THAT(half.Receive(), Not(HasSubstr("200 OK"))) << "returns only once the server has closed";
}

TEST_F(AdminServerTest, EndsWhileAClientHangs) {
  const Connection half(server_->address());
  half.Send("GET /metrics HTTP/1.1\r\nHost: ");
  EXPECT_THAT(Ask("GET", "/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
  server_.reset();
}

TEST_F(AdminServerTest, PortCanBeHadAgainAtOnce) {
  const std::string address = server_->address();
  EXPECT_THAT(Ask("GET", "/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
  server_.reset();
  const auto again = AdminServer::Start(address, gauge_, [] { return true; });
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->address(), address);
}

TEST_F(AdminServerTest, AddressInUseIsNamed) {
  const auto second = AdminServer::Start(server_->address(), gauge_, [] { return true; });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            "cannot listen on admin address " + server_->address() + ": address already in use");
  EXPECT_THAT(Ask("GET", "/livez"), StartsWith("HTTP/1.1 200 OK\r\n")) << "the first is undisturbed";
}

struct BadAddress {
  const char* name;
  const char* address;
  absl::StatusCode code;
  const char* message;
};

void PrintTo(const BadAddress& value, std::ostream* out) { *out << value.name; }

class BadAddressTest : public ::testing::TestWithParam<BadAddress> {};

TEST_P(BadAddressTest, IsNamed) {
  const OneGauge gauge;
  const auto server = AdminServer::Start(GetParam().address, gauge, [] { return true; });
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), GetParam().code);
  EXPECT_THAT(std::string(server.status().message()),
              AllOf(HasSubstr(GetParam().address), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Addresses, BadAddressTest,
    ::testing::Values(
        BadAddress{"NoPort", "127.0.0.1", absl::StatusCode::kInvalidArgument, "needed is HOST:PORT"},
        BadAddress{"NoHost", ":9464", absl::StatusCode::kInvalidArgument, "needed is HOST:PORT"},
        BadAddress{"EmptyPort", "127.0.0.1:", absl::StatusCode::kInvalidArgument, "from 0 to 65535"},
        BadAddress{"PortTooLarge", "127.0.0.1:70000", absl::StatusCode::kInvalidArgument, "from 0 to 65535"},
        BadAddress{"NegativePort", "127.0.0.1:-1", absl::StatusCode::kInvalidArgument, "from 0 to 65535"},
        BadAddress{"LettersAfterPort", "127.0.0.1:80s", absl::StatusCode::kInvalidArgument, "from 0 to 65535"},
        BadAddress{"TwoPorts", "127.0.0.1:0,127.0.0.1:0", absl::StatusCode::kInvalidArgument, "needed is HOST:PORT"},
        BadAddress{"Ipv6", "[::1]:0", absl::StatusCode::kUnavailable, "no IPv6"},
        BadAddress{"NotOurs", "192.0.2.1:0", absl::StatusCode::kUnavailable, "cannot assign requested address"},
        BadAddress{"UnknownName", "no-such-host.invalid:0", absl::StatusCode::kUnavailable, "cannot listen on admin"}),
    [](const auto& test) { return test.param.name; });

TEST(AdminServerNameTest, NameStandsForItsAddress) {
  const OneGauge gauge;
  const auto server = AdminServer::Start("localhost:0", gauge, [] { return true; });
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->address(), StartsWith("127.0.0.1:"));
}

}  // namespace
}  // namespace embedding
