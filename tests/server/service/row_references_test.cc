// Answers that point into the table: their bytes, what they are made of, and how long they hold the table.
#include "server/service/row_references.h"

#include <numeric>
#include <random>
#include <thread>

#include "grpcpp/generic/generic_stub.h"
#include "server/exec/mutex.h"
#include "server/service/snapshot_reaper.h"
#include "tests/server/service/loopback_server.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using ::testing::SizeIs;

constexpr int64_t kRows = 40;
constexpr char kLookupPath[] = "/embedding.v1.EmbeddingService/Lookup";
constexpr char kStreamPath[] = "/embedding.v1.EmbeddingService/LookupStream";

// Bits as they come: NaNs among them, which rows that are only copied keep.
std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

v1::LookupRequest RequestOf(const std::vector<int64_t>& ids) {
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids()->mutable_values()->Assign(ids.begin(), ids.end());
  return request;
}

std::vector<grpc::Slice> PiecesOf(const grpc::ByteBuffer& body) {
  std::vector<grpc::Slice> pieces;
  EXPECT_TRUE(body.Dump(&pieces).ok());
  return pieces;
}

struct Width {
  Dtype dtype;
  v1::Dtype wire;
  int64_t dim;
};

struct Ids {
  const char* name;
  std::vector<int64_t> ids;
  v1::MissingPolicy policy = v1::MISSING_POLICY_ERROR;
};

const Ids kIdLists[] = {
    {"One", {7}},
    {"Empty", {}},
    {"Repeated", {5, 5, 5, 4, 5, 5}},
    {"Consecutive", {0, 1, 2, 3, 39, 38, 37, 10, 11, 12, 11, 12}},
    {"All",
     [] {
       std::vector<int64_t> ids(3 * kRows);
       for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i) % kRows;
       return ids;
     }()},
    {"MissingAreZeros", {40, 3, 4, 1000, 5}, v1::MISSING_POLICY_ZERO},
    {"NoneMissingOfZeros", {3, 4, 0}, v1::MISSING_POLICY_ZERO},
    {"MissingAreSkipped", {40, 3, 1000, 4, 5, 40}, v1::MISSING_POLICY_SKIP},
    {"AllAreSkipped", {40, 1000}, v1::MISSING_POLICY_SKIP},
    {"MissingAreTheDefaultRow", {40, 3, 1000, 4, 2, 3}, v1::MISSING_POLICY_DEFAULT_ROW},
};

class RowBytesTest : public ::testing::TestWithParam<std::tuple<Width, Ids>> {};

// The expected bytes are protobuf's, of a message filled from the array that the table was made of.
TEST_P(RowBytesTest, AreThoseThatProtobufWouldWriteHoweverWideTheRows) {
  constexpr int64_t kDefaultRow = 2;
  const auto& [width, list] = GetParam();
  const size_t element = DtypeSize(width.dtype);
  const size_t row_bytes = static_cast<size_t>(width.dim) * element;
  const std::string rows = RandomBytes(kRows * row_bytes, 1);
  Services services(TablesOf(TableFromMemory("t", width.dtype, kRows, width.dim, rows.data(), {}, kDefaultRow)));
  for (const int64_t columns : {width.dim, width.dim - 1, (width.dim + 1) / 2}) {
    v1::LookupResponse want;
    want.mutable_table()->set_name("t");
    want.mutable_table()->set_version(1);
    want.mutable_table()->set_fingerprint((*services.registry.Acquire("t", 1))->table->fingerprint());
    v1::Tensor& tensor = *want.mutable_embeddings();
    tensor.set_dtype(width.wire);
    int64_t kept = 0;
    for (size_t i = 0; i < list.ids.size(); ++i) {
      const bool missing = list.ids[i] >= kRows;
      if (missing) want.add_missing_positions(static_cast<int64_t>(i));
      if (missing && list.policy == v1::MISSING_POLICY_SKIP) continue;
      ++kept;
      const size_t bytes = static_cast<size_t>(columns) * element;
      if (missing && list.policy == v1::MISSING_POLICY_ZERO) {
        tensor.mutable_data()->append(bytes, '\0');
      } else {
        const int64_t row = missing ? kDefaultRow : list.ids[i];
        tensor.mutable_data()->append(rows, static_cast<size_t>(row) * row_bytes, bytes);
      }
    }
    tensor.add_shape(kept);
    tensor.add_shape(columns);
    v1::LookupRequest request = RequestOf(list.ids);
    request.set_missing(list.policy);
    request.set_dimensions(static_cast<int32_t>(columns));
    const auto call = services.Start("Lookup", BodyOf(request.SerializeAsString()));
    ASSERT_EQ(call->status(), absl::OkStatus());
    EXPECT_TRUE(BytesOf(call->TakeReply()) == want.SerializeAsString()) << columns << " columns";
    EXPECT_EQ(services.admission.in_flight_bytes(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    AroundTheCrossover, RowBytesTest,
    ::testing::Combine(::testing::Values(Width{Dtype::kF32, v1::DTYPE_F32, kReferencedPieceBytes / 4 - 1},
                                         Width{Dtype::kF32, v1::DTYPE_F32, kReferencedPieceBytes / 4},
                                         Width{Dtype::kF32, v1::DTYPE_F32, kReferencedPieceBytes},
                                         Width{Dtype::kF16, v1::DTYPE_F16, kReferencedPieceBytes / 2},
                                         Width{Dtype::kBF16, v1::DTYPE_BF16, kReferencedPieceBytes / 2 + 1},
                                         Width{Dtype::kI8, v1::DTYPE_I8, kReferencedPieceBytes - 1},
                                         Width{Dtype::kU8, v1::DTYPE_U8, kReferencedPieceBytes + 1},
                                         Width{Dtype::kF8E4M3, v1::DTYPE_F8_E4M3, 2 * kReferencedPieceBytes}),
                       ::testing::ValuesIn(kIdLists)),
    [](const auto& test) {
      const Width& width = std::get<0>(test.param);
      return v1::Dtype_Name(width.wire) + "x" + std::to_string(width.dim) + std::get<1>(test.param).name;
    });

class PiecesTest : public ::testing::Test {
 protected:
  // Of whole rows unless columns is given.
  std::vector<grpc::Slice> Ask(int64_t dim, const std::vector<int64_t>& ids, int32_t columns = 0) {
    services_ = std::make_unique<Services>(TablesOf(CountingTable("t", kRows, dim)));
    v1::LookupRequest request = RequestOf(ids);
    request.set_dimensions(columns);
    const auto call = services_->Start("Lookup", BodyOf(request.SerializeAsString()));
    EXPECT_EQ(call->status(), absl::OkStatus());
    reply_ = call->TakeReply();
    return PiecesOf(reply_);
  }

  void ExpectInTable(const grpc::Slice& piece, int64_t row, int64_t rows) const {
    const EmbeddingTable& table = *(*services_->registry.Acquire("t", 1))->table;
    EXPECT_EQ(reinterpret_cast<const std::byte*>(piece.begin()), table.row(row));
    EXPECT_EQ(piece.size(), static_cast<size_t>(rows) * table.row_bytes());
  }

  std::unique_ptr<Services> services_;
  grpc::ByteBuffer reply_;
};

TEST_F(PiecesTest, WideRowsLieInTheTable) {
  const std::vector<grpc::Slice> pieces = Ask(kReferencedPieceBytes / 4, {9, 3, 3});
  ASSERT_THAT(pieces, SizeIs(4));
  ExpectInTable(pieces[1], 9, 1);
  ExpectInTable(pieces[2], 3, 1);
  ExpectInTable(pieces[3], 3, 1);
}

TEST_F(PiecesTest, RowsOneBehindTheOtherAreOnePiece) {
  const std::vector<grpc::Slice> pieces = Ask(kReferencedPieceBytes / 4, {4, 5, 6, 38, 39, 0});
  ASSERT_THAT(pieces, SizeIs(4));
  ExpectInTable(pieces[1], 4, 3);
  ExpectInTable(pieces[2], 38, 2);
  ExpectInTable(pieces[3], 0, 1);
}

TEST_F(PiecesTest, CutRowsAreNotJoined) {
  EXPECT_THAT(Ask(kReferencedPieceBytes / 2, {4, 5, 6}, kReferencedPieceBytes / 4), SizeIs(4));
}

TEST_F(PiecesTest, NarrowRowsAreCopiedIntoOnePiece) {
  EXPECT_THAT(Ask(kReferencedPieceBytes / 4 - 1, {9, 3, 3}), SizeIs(1));
}

TEST_F(PiecesTest, NarrowRowsLieInTheTableWhereTheyAreNeighbours) {
  std::vector<int64_t> ids(kRows);
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<grpc::Slice> pieces = Ask(kReferencedPieceBytes / 4 / kRows + 1, ids);
  ASSERT_THAT(pieces, SizeIs(2));
  ExpectInTable(pieces[1], 0, kRows);
}

TEST_F(PiecesTest, TheMeanPieceDecides) {
  constexpr int64_t kHalf = kReferencedPieceBytes / 8;  // half of the bytes of a piece
  ASSERT_THAT(Ask(kHalf, {0, 1, 2, 9}), SizeIs(3));
  ASSERT_THAT(Ask(kHalf, {0, 1, 5, 9}), SizeIs(1));
}

TEST_F(PiecesTest, AnAnswerIsInFlightAsLongAsAnyPieceOfItIs) {
  std::vector<grpc::Slice> pieces = Ask(kReferencedPieceBytes / 4, {9, 3});
  const auto size = static_cast<int64_t>(reply_.Length());
  reply_.Clear();
  EXPECT_EQ(services_->admission.in_flight_bytes(), size);
  pieces.resize(2);
  EXPECT_EQ(services_->admission.in_flight_bytes(), size);
  pieces.clear();
  EXPECT_EQ(services_->admission.in_flight_bytes(), 0);
}

TEST(RowReferencesTest, WhatIsOverTheBoundIsRefused) {
  AdmissionLimits limits;
  limits.max_in_flight_bytes = 3 * kReferencedPieceBytes;
  Services services(TablesOf(CountingTable("t", kRows, kReferencedPieceBytes / 4)), {}, limits);
  const auto unread = services.Start("Lookup", BodyOf(RequestOf({1, 2}).SerializeAsString()));
  ASSERT_EQ(unread->status(), absl::OkStatus());
  v1::LookupResponse response;
  EXPECT_EQ(services.Lookup(RequestOf({1, 2}), &response).code(), absl::StatusCode::kResourceExhausted);
  unread->TakeReply().Clear();
  EXPECT_EQ(services.Lookup(RequestOf({1, 2}), &response), absl::OkStatus());
}

TEST(RowReferencesTest, OnlyLongCopiesWaitForAWorker) {
  constexpr size_t kInlineRows = (size_t{8} << 20) / (kReferencedPieceBytes / 2);  // of the narrow table
  AdmissionLimits limits;
  limits.max_queued_searches = 1;
  Services services(TablesOf(CountingTable("narrow", kRows, kReferencedPieceBytes / 8),
                             CountingTable("wide", kRows, kReferencedPieceBytes / 4)),
                    {}, limits);
  const auto place = services.admission.Admit(0, /*search=*/true);  // now whatever needs a worker is refused
  ASSERT_TRUE(place.ok());
  const auto ask = [&](const char* table, size_t rows) {
    std::vector<int64_t> ids(rows);
    for (size_t i = 0; i < rows; ++i) ids[i] = static_cast<int64_t>(i) * 7 % kRows;
    v1::LookupRequest request = RequestOf(ids);
    request.mutable_table()->set_name(table);
    v1::LookupResponse response;
    return services.Lookup(request, &response).code();
  };
  EXPECT_EQ(ask("narrow", kInlineRows), absl::StatusCode::kOk);
  EXPECT_EQ(ask("narrow", kInlineRows + 1), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ask("wide", kInlineRows), absl::StatusCode::kOk);
}

// A server of one table whose versions tell when they are freed.
class VersionsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kDim = 4096;
  static constexpr int kIds = 256;  // 4 MiB of answer, more than windows and socket buffers take

  VersionsTest() : services_(std::vector<std::string>{"t"}, RequestLimits{}, /*keep_versions=*/1) {
    Publish(1);
    server_ = std::make_unique<LoopbackServer>(EmbeddingServiceMethods(services_.Context()),
                                               EmbeddingServiceStreams(services_.Context()), RequestLimits{},
                                               services_.metrics);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // the window stays at 64 KiB until the answer is asked for
    channel_ = server_->NewChannel(arguments);
  }

  ~VersionsTest() override {
    EndClient();
    StopServer();
    services_.registry.BeginShutdown();
  }

  // Row i of a version is filled with version * 100 + i.
  void Publish(uint64_t version) {
    std::vector<float> values;
    for (int64_t i = 0; i < kRows; ++i) values.insert(values.end(), kDim, RowValue(version, i));
    auto snapshot = std::make_unique<Snapshot>();
    snapshot->name = "t";
    snapshot->version = version;
    snapshot->table = FloatTable("t", kDim, values);
    SnapshotPtr reaped = reaper_.Own(std::move(snapshot));
    // Told after the last user has let go, and handed to the reaper in any case.
    services_.registry.Publish(SnapshotPtr(reaped.get(), [this, version, reaped](const Snapshot*) mutable {
      reaped.reset();
      MutexLock lock(&mutex_);
      freed_.push_back(version);
      changed_.SignalAll();
    }));
  }
  static float RowValue(uint64_t version, int64_t row) {
    return static_cast<float>(version * 100 + static_cast<uint64_t>(row));
  }

  std::vector<uint64_t> freed() {
    MutexLock lock(&mutex_);
    return freed_;
  }
  void AwaitFreed(uint64_t version) {
    MutexLock lock(&mutex_);
    while (std::find(freed_.begin(), freed_.end(), version) == freed_.end()) changed_.Wait(&mutex_);
  }

  // Sends a request for kIds rows of the serving version, and waits until it has been worked on. Nothing is read.
  void AskWithoutReading(const std::string& path) {
    v1::LookupRequest lookup;
    for (int i = 0; i < kIds; ++i) lookup.mutable_rows()->mutable_ids()->add_values(IdAt(i));
    std::string body = lookup.SerializeAsString();
    if (path == kStreamPath) {
      v1::LookupStreamRequest item;
      *item.mutable_lookup() = lookup;
      body = item.SerializeAsString();
    }
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
    context_ = std::make_unique<grpc::ClientContext>();
    call_ = stub_->PrepareCall(context_.get(), path, &queue_);
    call_->StartCall(&queue_);
    ASSERT_TRUE(Next());
    call_->WriteLast(BodyOf(body), {}, &queue_);
    ASSERT_TRUE(Next());
    while (services_.admission.in_flight_bytes() == 0) std::this_thread::yield();
  }
  static int64_t IdAt(int64_t i) { return i * 7 % kRows; }

  std::vector<float> ReadRows(const std::string& path) {
    grpc::ByteBuffer answer;
    call_->Read(&answer, &queue_);
    if (!Next()) return {};
    if (path == kLookupPath) {
      v1::LookupResponse response;
      EXPECT_TRUE(response.ParseFromString(BytesOf(answer)));
      return FloatsOf(response.embeddings());
    }
    v1::LookupStreamResponse response;
    EXPECT_TRUE(response.ParseFromString(BytesOf(answer)));
    return FloatsOf(response.lookup().embeddings());
  }

  void EndClient() {
    if (call_ == nullptr) return;
    context_->TryCancel();
    grpc::Status status;
    call_->Finish(&status, &queue_);
    Next();
    call_.reset();
  }

  void StopServer() {
    if (server_ == nullptr) return;
    server_->Stop(std::chrono::seconds(0));
    server_.reset();
    while (services_.admission.in_flight_bytes() > 0) std::this_thread::yield();
  }

  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<uint64_t> freed_ ABSL_GUARDED_BY(mutex_);
  SnapshotReaper reaper_;
  Services services_;
  std::unique_ptr<LoopbackServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class UnreadAnswerTest : public VersionsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(UnreadAnswerTest, KeepsItsVersionUntilItIsRead) {
  AskWithoutReading(GetParam());
  Publish(2);
  Publish(3);
  AwaitFreed(2);  // nobody asked for it
  EXPECT_THAT(freed(), SizeIs(1));
  const std::vector<float> rows = ReadRows(GetParam());
  ASSERT_THAT(rows, SizeIs(kIds * kDim));
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i], RowValue(1, IdAt(static_cast<int64_t>(i / kDim)))) << "element " << i;
  }
  AwaitFreed(1);
}

TEST_P(UnreadAnswerTest, LetsGoOfItsVersionWhenTheCallerLeaves) {
  AskWithoutReading(GetParam());
  Publish(2);
  EXPECT_THAT(freed(), SizeIs(0));
  EndClient();
  AwaitFreed(1);
}

TEST_P(UnreadAnswerTest, LetsGoOfItsVersionWhenTheServerEnds) {
  AskWithoutReading(GetParam());
  Publish(2);
  StopServer();
  AwaitFreed(1);
}

INSTANTIATE_TEST_SUITE_P(Paths, UnreadAnswerTest, ::testing::Values(kLookupPath, kStreamPath), [](const auto& test) {
  return std::string(test.param == std::string(kLookupPath) ? "Unary" : "Stream");
});

}  // namespace
}  // namespace embedding::testing
