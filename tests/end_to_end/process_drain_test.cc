// How the server ends: signals, calls in flight, late calls.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/end_to_end/child_server.h"

namespace embedding::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

v1::LookupRequest SmallLookup() {
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids()->add_values(7);
  return request;
}

v1::NearestNeighbourRequest SmallSearch() {
  v1::NearestNeighbourRequest request;
  request.mutable_targets()->mutable_rows()->mutable_ids()->add_values(5);
  request.set_k(10);
  return request;
}

grpc::Status Lookup(v1::EmbeddingService::Stub& stub) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(10));
  v1::LookupResponse response;
  return stub.Lookup(&context, SmallLookup(), &response);
}

grpc::Status Search(v1::EmbeddingService::Stub& stub, const v1::NearestNeighbourRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(10));
  v1::NearestNeighbourResponse response;
  return stub.NearestNeighbour(&context, request, &response);
}

// The number after "name=" in a log line; -1 without.
int64_t NumberIn(const std::string& line, const std::string& name) {
  const size_t at = line.find(" " + name + "=");
  if (at == std::string::npos) return -1;
  const std::string rest = line.substr(at + name.size() + 2);
  int64_t value = -1;
  return absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &value) ? value : -1;
}

// A table on which a search of 1,024 queries takes some tenths of a second.
std::string ZeroTable(const ScratchFolder& folder) {
  return absl::StrCat("zeros=", folder.SparseFile("zeros", int64_t{262144} * 64 * 4), ",format=raw,dtype=F32,dim=64");
}

// One on which it takes many seconds: rows of such lengths (some 5e20) are all scored canonically.
std::string HugeTable(const ScratchFolder& folder) {
  return absl::StrCat("huge=", folder.TextFile("huge", std::string(size_t{262144} * 64 * 4, '\x60')),
                      ",format=raw,dtype=F32,dim=64");
}

v1::NearestNeighbourRequest SearchOf(int queries) {
  v1::NearestNeighbourRequest request;
  v1::Tensor* vectors = request.mutable_targets()->mutable_vectors();
  vectors->add_shape(queries);
  vectors->add_shape(64);
  for (int i = 0; i < queries * 64; ++i) vectors->add_values(static_cast<float>(i % 17 - 8));
  request.set_k(10);
  request.set_metric(v1::METRIC_DOT);
  return request;
}

constexpr char kLookupsAnswered[] =
    "grpc_server_handled_total{grpc_type=\"unary\",grpc_service=\"embedding.v1.EmbeddingService\","
    "grpc_method=\"Lookup\",grpc_code=\"OK\"}";
constexpr char kSearchesInFlight[] = "embedding_requests_in_flight{grpc_method=\"NearestNeighbour\"}";

class SignalTest : public ::testing::TestWithParam<int> {};

TEST_P(SignalTest, UnderLoadEveryStartedCallIsAnsweredAndOthersSeeUnavailable) {
  ChildServer server({"--table", SampleTable()});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  const std::string address = server.grpc_address();
  constexpr int kCallers = 8;
  std::vector<std::map<int, int>> codes(kCallers);  // of each caller
  std::atomic<int> answered{0};
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      const auto stub = v1::EmbeddingService::NewStub(Connect(address));
      // Goes on for a while after the first refusal, as callers do.
      for (int refused = 0; refused < 50;) {
        const grpc::Status status = i % 2 == 0 ? Lookup(*stub) : Search(*stub, SmallSearch());
        ++codes[static_cast<size_t>(i)][status.error_code()];
        if (status.ok()) {
          ++answered;
        } else {
          ++refused;
        }
      }
    });
  }
  while (answered.load() < 200) std::this_thread::yield();
  server.Signal(GetParam());
  EXPECT_EQ(server.Wait(), 0);
  for (std::thread& caller : callers) caller.join();

  int64_t ok = 0;
  for (const auto& of_caller : codes) {
    for (const auto& [code, count] : of_caller) {
      EXPECT_THAT(code, AnyOf(Eq(grpc::StatusCode::OK), Eq(grpc::StatusCode::UNAVAILABLE))) << count;
      if (code == grpc::StatusCode::OK) ok += count;
    }
  }
  const std::string last = server.Lines().back();
  EXPECT_THAT(last, HasSubstr(" info drained "));
  EXPECT_EQ(NumberIn(last, "started"), NumberIn(last, "answered")) << last;
  EXPECT_GE(NumberIn(last, "answered"), ok) << last;
}

INSTANTIATE_TEST_SUITE_P(Both, SignalTest, ::testing::Values(SIGTERM, SIGINT));

TEST(DrainTest, CallsInFlightAreAnsweredAndLateOnesToldWhy) {
  const ScratchFolder folder;
  ChildServer server({"--table", ZeroTable(folder), "--drain-timeout=10m", "--max-deadline=1h"});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  const auto stub = v1::EmbeddingService::NewStub(Connect(server.grpc_address()));
  ASSERT_TRUE(Lookup(*stub).ok());  // connected
  grpc::Status searched;
  std::thread caller([&] { searched = Search(*stub, SearchOf(512)); });
  EXPECT_TRUE(server.AwaitMetric(kSearchesInFlight, 1));
  server.Signal(SIGTERM);
  ASSERT_NE(server.AwaitLine(" draining "), "");
  grpc::Status late = Lookup(*stub);
  while (late.ok()) late = Lookup(*stub);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(late.error_message(), "server is shutting down");
  caller.join();
  EXPECT_TRUE(searched.ok()) << searched.error_message();
  EXPECT_EQ(server.Wait(), 0);
}

TEST(DrainTest, ACallLongerThanTheTimeoutIsCut) {
  const ScratchFolder folder;
  ChildServer server({"--table", HugeTable(folder), "--drain-timeout=10ms", "--max-deadline=1h"});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  const auto stub = v1::EmbeddingService::NewStub(Connect(server.grpc_address()));
  grpc::Status searched;
  std::thread caller([&] { searched = Search(*stub, SearchOf(1024)); });
  EXPECT_TRUE(server.AwaitMetric(kSearchesInFlight, 1));
  server.Signal(SIGTERM);
  caller.join();
  EXPECT_THAT(searched.error_code(), AnyOf(Eq(grpc::StatusCode::UNAVAILABLE), Eq(grpc::StatusCode::CANCELLED)));
  EXPECT_EQ(server.Wait(), 0);
  const std::string last = server.Lines().back();
  EXPECT_EQ(NumberIn(last, "started"), 1) << last;
  EXPECT_EQ(NumberIn(last, "answered"), 0) << last;
  EXPECT_EQ(NumberIn(last, "cut"), 1) << last;
}

// One frame of HTTP/2.
std::string Frame(char type, char flags, uint32_t stream, const std::string& payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(size >> shift);
  frame += {type, flags};
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + payload;
}

// A header field, as HPACK writes it literally.
std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
}

// What a caller sends who asks for `rows` rows so many times and allows the server to send all of it at once.
std::string ManyLookups(int calls, int rows) {
  constexpr char kData = 0, kHeaders = 1, kSettings = 4, kWindowUpdate = 8;
  constexpr char kEndStream = 1, kEndHeaders = 4;
  v1::LookupRequest request;
  for (int i = 0; i < rows; ++i) request.mutable_rows()->mutable_ids()->add_values(1);
  request.set_output_dtype(v1::DTYPE_F32);
  const std::string body = request.SerializeAsString();
  std::string message(1, '\0');
  for (const int shift : {24, 16, 8, 0}) message += static_cast<char>(body.size() >> shift);
  message += body;
  const std::string headers = Header(":method", "POST") + Header(":scheme", "http") +
                              Header(":path", "/embedding.v1.EmbeddingService/Lookup") + Header(":authority", "test") +
                              Header("content-type", "application/grpc") + Header("te", "trailers");
  const std::string initial_window("\0\4\x7f\xff\xff\xff", 6), more_window("\x7f\xff\0\0", 4);
  std::string sent = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, initial_window) +
                     Frame(kWindowUpdate, 0, 0, more_window);
  for (int i = 0; i < calls; ++i) {
    const auto stream = static_cast<uint32_t>(2 * i + 1);
    sent += Frame(kHeaders, kEndHeaders, stream, headers) + Frame(kData, kEndStream, stream, message);
  }
  return sent;
}

// A connection that has asked for 24 MB of answers, more than the kernel's buffers hold, by requests of 60 kB, less
// than HTTP/2 lets it send at first.
int AskForMuch(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  const std::string calls = ManyLookups(10, 6000);
  EXPECT_EQ(send(fd, calls.data(), calls.size(), MSG_NOSIGNAL), static_cast<ssize_t>(calls.size()));
  return fd;
}

TEST(DrainTest, APeerThatDoesNotReadIsCutAtTheTimeout) {
  ChildServer server({"--table", SampleTable(), "--drain-timeout=100ms"});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  const int fd = AskForMuch(server.grpc_address());
  ASSERT_TRUE(server.AwaitMetric(kLookupsAnswered, 10));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.Lines().back(), HasSubstr(" drained "));
  close(fd);
}

TEST(DrainTest, APeerThatStaysConnectedDoesNotHoldUpTheEnd) {
  // It depends on which of gRPC's threads polls last whether it would wait, so more than once.
  for (int round = 0; round < 6; ++round) {
    ChildServer server({"--table", SampleTable()});
    ASSERT_NE(server.AwaitLine(" ready "), "");
    const int fd = AskForMuch(server.grpc_address());
    ASSERT_TRUE(server.AwaitMetric(kLookupsAnswered, 10));
    server.Signal(SIGTERM);
    ASSERT_NE(server.AwaitLine(" draining "), "");
    std::string buffer(1 << 20, ' ');
    for (size_t received = 0; received < 24'000'000;) {
      const ssize_t count = read(fd, buffer.data(), buffer.size());
      ASSERT_GT(count, 0);
      received += static_cast<size_t>(count);
    }
    ASSERT_NE(server.AwaitLine(" drained "), "");
    const auto drained = std::chrono::steady_clock::now();
    EXPECT_EQ(server.Wait(), 0);
    // gRPC alone would wait for up to ten seconds.
    EXPECT_LT(std::chrono::steady_clock::now() - drained, std::chrono::seconds(6));
    close(fd);
  }
}

TEST(DrainTest, TheDelaySaysNotServingAndAnswersStillAndASecondSignalEndsAtOnce) {
  ChildServer server({"--table", SampleTable(), "--drain-delay=10m"});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  const std::string address = server.grpc_address();
  server.Signal(SIGTERM);
  ASSERT_NE(server.AwaitLine(" draining "), "");
  EXPECT_EQ(RunServer({"health", "--address", address}).exit_code, 4);
  EXPECT_EQ(RunServer({"health", "--address", address, "--service", "table/words"}).exit_code, 4);
  int page = 0;
  server.AdminPage("/readyz", &page);
  EXPECT_EQ(page, 503);
  server.AdminPage("/livez", &page);
  EXPECT_EQ(page, 200);
  const auto stub = v1::EmbeddingService::NewStub(Connect(address));
  EXPECT_TRUE(Lookup(*stub).ok());
  // One that comes within half a second of the first would not count.
  while (!absl::StrContains(server.Lines().back(), "second signal")) server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 130);
}

// As timeout(1) does: to the process and to its group.
TEST(DrainTest, TwoSignalsTogetherAreOne) {
  ChildServer server({"--table", SampleTable()});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  server.Signal(SIGTERM);
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.Lines().back(), HasSubstr(" drained "));
}

TEST(DrainTest, OtherSignalsChangeNothing) {
  ChildServer server({"--table", SampleTable()});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  for (const int ignored : {SIGPIPE, SIGUSR1}) server.Signal(ignored);
  EXPECT_EQ(RunServer({"health", "--address", server.grpc_address()}).exit_code, 0);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace embedding::testing
