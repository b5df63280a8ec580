// LookupStream over a loopback port, spoken to by gRPC's own client: order, outcomes, flow, ends.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "embedding/v1/embedding.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/server/service/loopback_server.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

constexpr int64_t kWide = 4096;  // columns of "wide"
constexpr size_t kWideRowBytes = kWide * sizeof(float);

class LookupStreamTest : public ::testing::Test {
 protected:
  LookupStreamTest()
      : services_(TablesOf(ToyTable(), CountingTable("wide", 8, kWide))),
        server_(EmbeddingServiceMethods(services_.Context()), EmbeddingServiceStreams(services_.Context()), {},
                services_.metrics) {}

  ~LookupStreamTest() override {
    server_.Stop(std::chrono::seconds(60));
    // A worker may still be letting go of what it has sent.
    while (services_.admission.in_flight_bytes() > 0) std::this_thread::yield();
    EXPECT_EQ(services_.admission.queued_searches(), 0);
  }

  // With a connection of its own.
  std::unique_ptr<v1::EmbeddingService::Stub> NewStub() const {
    return v1::EmbeddingService::NewStub(server_.NewChannel());
  }

  static v1::LookupStreamRequest ToyRow(int64_t id) {
    v1::LookupStreamRequest request;
    request.mutable_lookup()->mutable_table()->set_name("toy");
    request.mutable_lookup()->mutable_rows()->mutable_ids()->add_values(id);
    return request;
  }

  // An answer of count rows of 16 KiB.
  static v1::LookupStreamRequest WideRows(int count) {
    v1::LookupStreamRequest request;
    request.mutable_lookup()->mutable_table()->set_name("wide");
    for (int i = 0; i < count; ++i) request.mutable_lookup()->mutable_rows()->mutable_ids()->add_values(i % 8);
    return request;
  }

  // More arithmetic than a polling thread takes upon itself.
  static v1::LookupStreamRequest LongBag() {
    v1::LookupStreamRequest request = WideRows(1024);
    request.mutable_lookup()->mutable_pooling()->add_offsets(0);
    return request;
  }

  double Items(const std::string& code) const {
    return MetricValue(services_.metrics, "embedding_stream_items_total", {{"grpc_code", code}});
  }

  Services services_;
  LoopbackServer server_;
  const std::unique_ptr<v1::EmbeddingService::Stub> stub_ = NewStub();
};

TEST_F(LookupStreamTest, AnswersInOrderWithManyOutstanding) {
  constexpr int kItems = 2000, kOutstanding = 32;
  const float first_columns[] = {1, .9f, 0, -1};
  grpc::ClientContext context;
  const auto stream = stub_->LookupStream(&context);
  v1::LookupStreamResponse response;
  int sent = 0;
  for (int received = 0; received < kItems; ++received) {
    while (sent < kItems && sent < received + kOutstanding) ASSERT_TRUE(stream->Write(ToyRow(sent++ % 4)));
    ASSERT_TRUE(stream->Read(&response));
    ASSERT_EQ(response.outcome_case(), v1::LookupStreamResponse::kLookup);
    ASSERT_EQ(FloatsOf(response.lookup().embeddings())[0], first_columns[received % 4]) << received;
  }
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Items("OK"), kItems);
}

// The stream's headers leave with its first answer, which others may be waiting behind. Without them the library tells
// of no write, and the transport's next timer is a minute away.
TEST_F(LookupStreamTest, ABurstAtTheStartIsAnsweredAtOnce) {
  constexpr int kStreams = 100, kItems = 8;
  for (int i = 0; i < kStreams; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto stream = stub_->LookupStream(&context);
    for (int j = 0; j < kItems; ++j) ASSERT_TRUE(stream->Write(ToyRow(j % 4)));
    v1::LookupStreamResponse response;
    for (int j = 0; j < kItems; ++j) ASSERT_TRUE(stream->Read(&response)) << "stream " << i << ", answer " << j;
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
}

TEST_F(LookupStreamTest, AnswersEqualThoseOfLookup) {
  grpc::ClientContext context, other;
  v1::LookupStreamRequest request = ToyRow(2);
  request.mutable_lookup()->mutable_rows()->mutable_ids()->add_values(9);
  request.mutable_lookup()->set_missing(v1::MISSING_POLICY_ZERO);
  request.mutable_lookup()->set_encoding(v1::ENCODING_FLOATS);
  const auto stream = stub_->LookupStream(&context);
  ASSERT_TRUE(stream->Write(request));
  v1::LookupStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  v1::LookupResponse lookup;
  ASSERT_TRUE(stub_->Lookup(&other, request.lookup(), &lookup).ok());
  EXPECT_EQ(response.lookup().SerializeAsString(), lookup.SerializeAsString());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(LookupStreamTest, AnItemThatFailsEndsNothingElse) {
  grpc::ClientContext context;
  const auto stream = stub_->LookupStream(&context);
  for (const int64_t id : {1, 4, -1, 2}) ASSERT_TRUE(stream->Write(ToyRow(id)));
  ASSERT_TRUE(stream->Write(v1::LookupStreamRequest()));
  stream->WritesDone();
  v1::LookupStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(FloatsOf(response.lookup().embeddings())[0], .9f);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error().code(), static_cast<int>(grpc::StatusCode::OUT_OF_RANGE));
  EXPECT_EQ(response.error().message(), "ids[0] is 4, table \"toy\" has 4 rows");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error().code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_EQ(response.error().message(), "ids[0]=-1, must be >= 0");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(FloatsOf(response.lookup().embeddings())[1], 1);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error().message(), "rows is unset, must hold ids, keys or id_tensor");
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Items("OK"), 2);
  EXPECT_EQ(Items("InvalidArgument"), 2);
  EXPECT_EQ(Items("OutOfRange"), 1);
}

TEST_F(LookupStreamTest, AMessageThatDoesNotParseEndsTheStreamAfterTheAnswersBeforeIt) {
  grpc::GenericStub stub(server_.NewChannel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto done = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto stream = stub.PrepareCall(&context, "/embedding.v1.EmbeddingService/LookupStream", &queue);
  stream->StartCall(nullptr);
  ASSERT_TRUE(done());
  for (const std::string& bytes : {ToyRow(0).SerializeAsString(), std::string("\x0a\x05\x08", 3)}) {
    stream->Write(BodyOf(bytes), nullptr);
    ASSERT_TRUE(done());
  }
  grpc::ByteBuffer answer;
  stream->Read(&answer, nullptr);
  ASSERT_TRUE(done());
  v1::LookupStreamResponse response;
  ASSERT_TRUE(response.ParseFromString(BytesOf(answer)));
  EXPECT_EQ(FloatsOf(response.lookup().embeddings())[0], 1);
  stream->Read(&answer, nullptr);
  EXPECT_FALSE(done());
  grpc::Status status;
  stream->Finish(&status, nullptr);
  ASSERT_TRUE(done());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "not a valid embedding.v1.LookupStreamRequest: broken protobuf encoding");
  EXPECT_EQ(DetailsOf(FromGrpcStatus(status)).reason, "MALFORMED");
  queue.Shutdown();
  EXPECT_FALSE(done());
}

TEST_F(LookupStreamTest, AReaderWhoNeverReadsHoldsLittleAndStallsNobody) {
  constexpr int kAnswerRows = 16, kRequests = 400;  // 256 KiB each, 100 MiB together
  grpc::ClientContext lazy_context;
  const auto lazy_stub = NewStub();
  const auto lazy = lazy_stub->LookupStream(&lazy_context);
  for (int i = 0; i < kRequests; ++i) ASSERT_TRUE(lazy->Write(WideRows(kAnswerRows)));
  grpc::ClientContext busy_context;
  const auto busy = stub_->LookupStream(&busy_context);
  v1::LookupStreamResponse response;
  int64_t held = 0;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(busy->Write(ToyRow(i % 4)));
    ASSERT_TRUE(busy->Read(&response));
    grpc::ClientContext context;
    v1::LookupResponse lookup;
    ASSERT_TRUE(stub_->Lookup(&context, ToyRow(1).lookup(), &lookup).ok());
    held = std::max(held, services_.admission.in_flight_bytes());
  }
  // 1 MiB that waits, one answer more, what the library holds of the one being written, and the small ones.
  EXPECT_LT(held, static_cast<int64_t>((1 << 20) + kWideRowBytes * 4 * kAnswerRows));
  EXPECT_LT(Items("OK"), 300 + kRequests);
  busy->WritesDone();
  EXPECT_TRUE(busy->Finish().ok());
  // Who then reads gets everything.
  lazy->WritesDone();
  int received = 0;
  while (lazy->Read(&response)) {
    ASSERT_EQ(response.lookup().embeddings().data().size(), kAnswerRows * kWideRowBytes);
    ++received;
  }
  EXPECT_EQ(received, kRequests);
  EXPECT_TRUE(lazy->Finish().ok());
}

TEST_F(LookupStreamTest, LongItemsRunOnThePoolAndKeepTheirPlace) {
  grpc::ClientContext context;
  const auto stream = stub_->LookupStream(&context);
  ASSERT_TRUE(stream->Write(ToyRow(0)));
  ASSERT_TRUE(stream->Write(LongBag()));
  ASSERT_TRUE(stream->Write(ToyRow(1)));
  stream->WritesDone();
  v1::LookupStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(FloatsOf(response.lookup().embeddings())[0], 1);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(FloatsOf(response.lookup().embeddings())[0], 128.0f * (1000 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7)));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(FloatsOf(response.lookup().embeddings())[0], .9f);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(LookupStreamTest, ACancelInTheMiddleLeavesNothingBehind) {
  grpc::ClientContext context;
  const auto stream = stub_->LookupStream(&context);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream->Write(WideRows(16)));
  v1::LookupStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  while (server_.rpc().in_flight() > 0 || services_.admission.in_flight_bytes() > 0) std::this_thread::yield();
  // Counted when the library says that the stream has ended, which may be after the caller knows.
  while (MetricValue(services_.metrics, "grpc_server_handled_total",
                     {{"grpc_method", "LookupStream"}, {"grpc_code", "Canceled"}}) != 1) {
    std::this_thread::yield();
  }
}

TEST_F(LookupStreamTest, AStreamEndsWithItsOwnDeadlineOnly) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const auto stream = stub_->LookupStream(&context);
  v1::LookupStreamResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  while (server_.rpc().in_flight() > 0) std::this_thread::yield();
}

TEST_F(LookupStreamTest, ADrainAnswersWhatWasTakenAndSaysWhyItEnds) {
  // Both workers wait, so that the long item is taken and not answered when the drain begins. One of them may look once
  // more when this function has returned.
  const auto go = std::make_shared<std::atomic<bool>>(false);
  services_.pool.Submit(
      2,
      [go](int) {
        while (!go->load()) std::this_thread::yield();
      },
      [] {});
  grpc::ClientContext context;
  const auto stream = stub_->LookupStream(&context);
  ASSERT_TRUE(stream->Write(LongBag()));
  while (services_.admission.queued_searches() == 0) std::this_thread::yield();
  server_.rpc().BeginDrain();
  EXPECT_EQ(server_.rpc().undrained_calls(), 1);
  go->store(true);
  v1::LookupStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.outcome_case(), v1::LookupStreamResponse::kLookup);
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "server is shutting down");
}

TEST_F(LookupStreamTest, IsCountedAsAStream) {
  grpc::ClientContext context;
  const auto stream = stub_->LookupStream(&context);
  ASSERT_TRUE(stream->Write(ToyRow(0)));
  v1::LookupStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const std::map<std::string, std::string> labels = {{"grpc_type", "bidi_stream"}, {"grpc_method", "LookupStream"}};
  EXPECT_EQ(MetricValue(services_.metrics, "grpc_server_started_total", labels), 1);
  EXPECT_EQ(MetricValue(services_.metrics, "grpc_server_handled_total", labels), 0);
  EXPECT_EQ(server_.rpc().in_flight(), 1);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(MetricValue(services_.metrics, "grpc_server_handled_total", labels), 1);
  EXPECT_EQ(MetricValue(services_.metrics, "embedding_rows_total", {{"grpc_method", "LookupStream"}}), 1);
}

}  // namespace
}  // namespace embedding::testing
