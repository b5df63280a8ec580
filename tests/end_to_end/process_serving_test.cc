// The server's life from its start to its first calls: loading, health, reflection, deadlines, cancellation.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.grpc.pb.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/security/credentials.h"
#include "tests/end_to_end/child_server.h"

namespace embedding::testing {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

constexpr std::chrono::seconds kPatience{60};

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status Check(const std::shared_ptr<grpc::Channel>& channel, const std::string& name, int& state) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  HealthCheckRequest request;
  request.set_service(name);
  HealthCheckResponse response;
  grpc::Status status = grpc::health::v1::Health::NewStub(channel)->Check(&context, request, &response);
  state = response.status();
  return status;
}

int StateOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& name) {
  int state = -1;
  const grpc::Status status = Check(channel, name, state);
  EXPECT_TRUE(status.ok()) << name << ": " << status.error_message();
  return state;
}

v1::LookupRequest LookupOf(int64_t id) {
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids()->add_values(id);
  return request;
}

// A table whose rows are zeros: raw files may have holes, so it costs no disk.
std::string ZeroTable(const ScratchFolder& folder, const std::string& name, int64_t rows, int64_t dim) {
  return absl::StrCat(name, "=", folder.SparseFile(name, rows * dim * 4), ",format=raw,dtype=F32,dim=", dim);
}

// A search that takes seconds on ZeroTable(262144, 64).
v1::NearestNeighbourRequest LongSearch() {
  v1::NearestNeighbourRequest request;
  v1::Tensor* vectors = request.mutable_targets()->mutable_vectors();
  vectors->add_shape(1024);
  vectors->add_shape(64);
  for (int i = 0; i < 1024 * 64; ++i) vectors->add_values(static_cast<float>(i % 17 - 8));
  request.set_k(10);
  request.set_metric(v1::METRIC_DOT);
  return request;
}

TEST(LoadingTest, SaysNotServingUntilEveryTableIsLoaded) {
  const ScratchFolder folder;
  ChildServer server({"--table", SampleTable(), "--table", ZeroTable(folder, "large", 1 << 20, 192)});
  const auto channel = Connect(server.grpc_address());
  const auto stub = v1::EmbeddingService::NewStub(channel);
  // Before the table of 768 MiB is read there is time for a few calls.
  EXPECT_EQ(StateOf(channel, ""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(StateOf(channel, "embedding.v1.EmbeddingService"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(StateOf(channel, "table/large"), HealthCheckResponse::NOT_SERVING);
  {
    grpc::ClientContext context;
    v1::LookupResponse response;
    v1::LookupRequest request = LookupOf(0);
    request.mutable_table()->set_name("large");
    const grpc::Status status = stub->Lookup(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(status.error_message(), HasSubstr("load"));
  }
  int page = 0;
  server.AdminPage("/livez", &page);
  EXPECT_EQ(page, 200);
  server.AdminPage("/readyz", &page);
  EXPECT_EQ(page, 503);
  const std::string ready = server.AwaitLine(" ready ");
  ASSERT_NE(ready, "");
  EXPECT_EQ(server.Lines().back(), ready);

  for (const char* name : {"", "embedding.v1.EmbeddingService", "table/large", "table/words"}) {
    EXPECT_EQ(StateOf(channel, name), HealthCheckResponse::SERVING) << name;
  }
  server.AdminPage("/readyz", &page);
  EXPECT_EQ(page, 200);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(LoadingTest, EndsPromptlyWhenToldToWhileLoading) {
  const ScratchFolder folder;
  ChildServer server({"--table", ZeroTable(folder, "large", 1 << 20, 192), "--drain-delay=10m"});
  ASSERT_NE(server.AwaitLine(" listening "), "");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_EQ(server.AwaitLine(" ready "), "");
  EXPECT_THAT(server.Lines().back(), HasSubstr("started=0 answered=0"));
}

TEST(LoadingTest, ABadFileEndsItWithThreeAndItsPathAndReason) {
  const ScratchFolder folder;
  const std::string path = folder.TextFile("cut.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  ChildServer server({"--table", SampleTable(), "--table", "cut=" + path});
  EXPECT_EQ(server.Wait(), 3);
  EXPECT_THAT(server.Lines().back(), HasSubstr(path));
  EXPECT_EQ(server.AwaitLine(" ready "), "");
}

TEST(LoadingTest, AMissingFileEndsItWithThree) {
  ChildServer server({"--table", "none=/nowhere/none.npy"});
  EXPECT_EQ(server.Wait(), 3);
  EXPECT_THAT(server.Lines().back(), HasSubstr("/nowhere/none.npy"));
}

TEST(HealthTest, WatchFollowsAServerThroughItsLife) {
  const ScratchFolder folder;
  ChildServer server({"--table", ZeroTable(folder, "large", 1 << 20, 192)});
  const auto channel = Connect(server.grpc_address());
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context, unknown_context;
  HealthCheckRequest request;
  request.set_service("table/large");
  const auto watch = stub->Watch(&context, request);
  request.set_service("table/other");
  const auto unknown = stub->Watch(&unknown_context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_NE(server.AwaitLine(" ready "), "");
  // Open streams do not hold up the end.
  server.Signal(SIGTERM);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(unknown->Read(&response));
  EXPECT_EQ(unknown->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.Wait(), 0);
}

// One table, loaded, for all tests below.
class ServingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    server_ = new ChildServer({"--table", ZeroTable(*folder_, "zeros", 262144, 64), "--max-deadline=30m",
                               "--max-request-bytes=1MiB", "--max-response-bytes=1GiB", "--max-in-flight-bytes=1GiB"});
    ASSERT_NE(server_->AwaitLine(" ready "), "");
    channel_ = new std::shared_ptr<grpc::Channel>(Connect(server_->grpc_address()));
  }
  static void TearDownTestSuite() {
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0);
    delete channel_;
    delete server_;
    delete folder_;
  }
  static std::unique_ptr<v1::EmbeddingService::Stub> Stub() { return v1::EmbeddingService::NewStub(*channel_); }

  static ScratchFolder* folder_;
  static ChildServer* server_;
  static std::shared_ptr<grpc::Channel>* channel_;
};
ScratchFolder* ServingTest::folder_ = nullptr;
ChildServer* ServingTest::server_ = nullptr;
std::shared_ptr<grpc::Channel>* ServingTest::channel_ = nullptr;

TEST_F(ServingTest, UnknownHealthNameIsNotFound) {
  int state = 0;
  const grpc::Status status = Check(*channel_, "table/other", state);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("table/other"));
}

constexpr char kSearchesInFlight[] = "embedding_requests_in_flight{grpc_method=\"NearestNeighbour\"}";

TEST_F(ServingTest, AShortDeadlineStopsALongSearch) {
  const double scanned = server_->MetricValue("embedding_nn_rows_scanned_total");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1));
  v1::NearestNeighbourResponse response;
  EXPECT_EQ(Stub()->NearestNeighbour(&context, LongSearch(), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(server_->AwaitMetric(kSearchesInFlight, 0));
  // 1024 queries over 262144 rows would be 2^28.
  EXPECT_LT(server_->MetricValue("embedding_nn_rows_scanned_total") - scanned, double{1 << 28});
}

TEST_F(ServingTest, ACancelledSearchStopsAndTheNextCallIsServed) {
  const double scanned = server_->MetricValue("embedding_nn_rows_scanned_total");
  grpc::ClientContext context;
  grpc::Status status;
  std::thread caller([&] {
    v1::NearestNeighbourResponse response;
    status = Stub()->NearestNeighbour(&context, LongSearch(), &response);
  });
  EXPECT_TRUE(server_->AwaitMetric(kSearchesInFlight, 1));
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(server_->AwaitMetric(kSearchesInFlight, 0));
  EXPECT_LT(server_->MetricValue("embedding_nn_rows_scanned_total") - scanned, double{1 << 28});
  EXPECT_GE(server_->MetricValue("grpc_server_handled_total{grpc_type=\"unary\",grpc_service=\"embedding.v1."
                                 "EmbeddingService\",grpc_method=\"NearestNeighbour\",grpc_code=\"Canceled\"}"),
            1);

  grpc::ClientContext next;
  v1::NearestNeighbourRequest request;
  request.mutable_targets()->mutable_rows()->mutable_ids()->add_values(3);
  request.set_k(2);
  v1::NearestNeighbourResponse response;
  const grpc::Status served = Stub()->NearestNeighbour(&next, request, &response);
  ASSERT_TRUE(served.ok()) << served.error_message();
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_THAT(response.results(0).ids(), ::testing::ElementsAre(0, 1));
}

// A connection of the test's own, so that it can be cut.
int ConnectTcp(const std::string& address) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  EXPECT_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  return fd;
}

TEST_F(ServingTest, ALostConnectionStopsItsSearch) {
  const double scanned = server_->MetricValue("embedding_nn_rows_scanned_total");
  const int fd = ConnectTcp(server_->grpc_address());
  const auto stub = v1::EmbeddingService::NewStub(grpc::CreateInsecureChannelFromFd("server", fd));
  grpc::Status status;
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::NearestNeighbourResponse response;
    status = stub->NearestNeighbour(&context, LongSearch(), &response);
  });
  EXPECT_TRUE(server_->AwaitMetric(kSearchesInFlight, 1));
  shutdown(fd, SHUT_RDWR);
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(server_->AwaitMetric(kSearchesInFlight, 0));
  EXPECT_LT(server_->MetricValue("embedding_nn_rows_scanned_total") - scanned, double{1 << 28});
}

TEST_F(ServingTest, ATooLargeRequestIsResourceExhausted) {
  v1::LookupRequest request;
  for (int i = 0; i < 600000; ++i) request.mutable_rows()->mutable_ids()->add_values(200000);  // 3 bytes each
  grpc::ClientContext context;
  v1::LookupResponse response;
  EXPECT_EQ(Stub()->Lookup(&context, request, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(DeadlineTest, TheServersMaximumHoldsForCallsWithoutOne) {
  const ScratchFolder folder;
  ChildServer server({"--table", ZeroTable(folder, "zeros", 262144, 64), "--max-deadline=20ms"});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  const auto stub = v1::EmbeddingService::NewStub(Connect(server.grpc_address()));
  grpc::ClientContext context, quick;
  v1::NearestNeighbourResponse response;
  const grpc::Status status = stub->NearestNeighbour(&context, LongSearch(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("20 ms (--max-deadline)"));
  v1::LookupResponse rows;
  EXPECT_TRUE(stub->Lookup(&quick, LookupOf(1), &rows).ok());
}

// Both versions have the same messages.
template <typename Api, typename Request, typename Response>
class Reflection {
 public:
  explicit Reflection(const std::shared_ptr<grpc::Channel>& channel) : stub_(Api::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    stream_ = stub_->ServerReflectionInfo(&context_);
  }

  Response Ask(const Request& request) {
    Response response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    EXPECT_EQ(response.original_request().DebugString(), request.DebugString());
    return response;
  }

  static std::set<std::string> FileNames(const Response& response) {
    std::set<std::string> names;
    for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      names.insert(file.name());
    }
    return names;
  }

  void TestAll() {
    Request request;
    request.set_list_services("");
    std::set<std::string> services;
    const Response list = Ask(request);
    for (const auto& service : list.list_services_response().service()) services.insert(service.name());
    EXPECT_THAT(services, UnorderedElementsAre("embedding.v1.EmbeddingService", "embedding.v1.TableService",
                                               "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                               "grpc.reflection.v1alpha.ServerReflection"));

    request.set_file_containing_symbol("embedding.v1.EmbeddingService");
    EXPECT_THAT(FileNames(Ask(request)),
                IsSupersetOf({"embedding/v1/embedding.proto", "google/protobuf/timestamp.proto"}));
    request.set_file_containing_symbol("embedding.v1.LookupRequest");
    EXPECT_THAT(FileNames(Ask(request)), UnorderedElementsAre("embedding/v1/embedding.proto"));
    for (const std::string& service : services) {
      request.set_file_containing_symbol(service);
      EXPECT_FALSE(FileNames(Ask(request)).empty()) << service;
    }
    request.set_file_by_filename("google/rpc/error_details.proto");
    EXPECT_THAT(FileNames(Ask(request)), IsSupersetOf({"google/rpc/error_details.proto"}));

    request.set_file_by_filename("nothing.proto");
    EXPECT_EQ(Ask(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
    request.set_file_containing_symbol("no.such.Symbol");
    EXPECT_THAT(Ask(request).error_response().error_message(), HasSubstr("no.such.Symbol"));

    request.set_all_extension_numbers_of_type("embedding.v1.LookupRequest");
    Response numbers = Ask(request);
    EXPECT_EQ(numbers.all_extension_numbers_response().base_type_name(), "embedding.v1.LookupRequest");
    EXPECT_EQ(numbers.all_extension_numbers_response().extension_number_size(), 0);
    request.set_all_extension_numbers_of_type("no.such.Type");
    EXPECT_EQ(Ask(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
    request.mutable_file_containing_extension()->set_containing_type("embedding.v1.LookupRequest");
    request.mutable_file_containing_extension()->set_extension_number(7);
    EXPECT_EQ(Ask(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);

    EXPECT_EQ(Ask(Request()).error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    stream_->WritesDone();
    Response none;
    EXPECT_FALSE(stream_->Read(&none));
    EXPECT_TRUE(stream_->Finish().ok());
  }

  grpc::Status End() {
    stream_->WritesDone();
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<typename Api::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

namespace v1r = grpc::reflection::v1;
namespace v1a = grpc::reflection::v1alpha;
using ReflectionV1 = Reflection<v1r::ServerReflection, v1r::ServerReflectionRequest, v1r::ServerReflectionResponse>;
using ReflectionV1Alpha =
    Reflection<v1a::ServerReflection, v1a::ServerReflectionRequest, v1a::ServerReflectionResponse>;

TEST_F(ServingTest, ReflectionV1DescribesEveryService) { ReflectionV1(*channel_).TestAll(); }

TEST_F(ServingTest, ReflectionV1AlphaDescribesEveryService) { ReflectionV1Alpha(*channel_).TestAll(); }

TEST(ReflectionTest, CanBeSwitchedOff) {
  ChildServer server({"--table", SampleTable(), "--reflection=false"});
  const auto channel = Connect(server.grpc_address());
  EXPECT_EQ(ReflectionV1(channel).End().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ReflectionV1Alpha(channel).End().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace embedding::testing
