#include "client/loadtest/stream_transport.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/client/loadtest/fake_server.h"

namespace embedding::loadtest {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr int64_t kPatienceNs = 30'000'000'000;

Workload PairsOfRows() { return Workload({.batch_size = 2, .stream = true}, FakeTable::Info()); }

std::shared_ptr<grpc::Channel> ChannelTo(const FakeServer& server) {
  return grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
}

// Starts calls 0 .. num_calls - 1 at once, each in the slot of its number.
void StartAll(StreamTransport& transport, uint32_t num_calls) {
  for (uint32_t i = 0; i < num_calls; ++i) transport.Prepare(i, i, 0);
  for (uint32_t i = 0; i < num_calls; ++i) transport.Start(i);
}

// The outcomes of all calls in the order in which they came; ends when Next says that none is left.
std::vector<CallDone> TakeAll(StreamTransport& transport) {
  MonotonicClock clock;
  const int64_t until = clock.NowNs() + kPatienceNs;
  std::vector<CallDone> outcomes;
  for (;;) {
    CallDone done;
    const Transport::NextResult result = transport.Next(until, &done);
    EXPECT_NE(result, Transport::NextResult::kTimeout) << "after " << outcomes.size() << " answers";
    if (result != Transport::NextResult::kDone) return outcomes;
    outcomes.push_back(done);
  }
}

std::vector<CallDone> Perform(const FakeServer& server, uint32_t num_calls) {
  const Workload workload = PairsOfRows();
  const ReferenceTable reference = FakeReference();
  StreamTransport transport(ChannelTo(server), workload, &reference, static_cast<int>(num_calls));
  StartAll(transport, num_calls);
  transport.FinishSending();
  return TakeAll(transport);
}

TEST(StreamTransportTest, AnswersComeInOrderAndAreVerified) {
  FakeServer server;
  const std::vector<CallDone> outcomes = Perform(server, 500);
  ASSERT_EQ(outcomes.size(), 500);
  int64_t last_ns = 0;
  for (uint32_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].slot, i);
    EXPECT_EQ(outcomes[i].code, 0);
    EXPECT_EQ(outcomes[i].verdict, Verdict::kVerified) << outcomes[i].message;
    EXPECT_GT(outcomes[i].bytes, int64_t{2 * FakeTable::kDim * 4});
    EXPECT_GE(outcomes[i].done_ns, last_ns);
    last_ns = outcomes[i].done_ns;
  }
  // What was asked is what the server saw, in the same order.
  const Workload workload = PairsOfRows();
  const std::vector<std::vector<int64_t>> asked = server.lookups();
  ASSERT_EQ(asked.size(), outcomes.size());
  for (uint64_t i = 0; i < asked.size(); ++i) {
    std::vector<int64_t> ids;
    workload.IdsOf(i, &ids);
    EXPECT_EQ(asked[i], ids);
  }
}

TEST(StreamTransportTest, SlotsAreUsedAgainOnTheSameStream) {
  FakeServer server;
  const Workload workload = PairsOfRows();
  const ReferenceTable reference = FakeReference();
  StreamTransport transport(ChannelTo(server), workload, &reference, 1);
  MonotonicClock clock;
  for (uint64_t call = 0; call < 50; ++call) {
    transport.Prepare(0, call, 0);
    transport.Start(0);
    CallDone done;
    ASSERT_EQ(transport.Next(clock.NowNs() + kPatienceNs, &done), Transport::NextResult::kDone);
    EXPECT_EQ(done.verdict, Verdict::kVerified) << done.message;
  }
  EXPECT_GT(transport.bytes_sent(), 50 * 4);
  transport.FinishSending();
  EXPECT_TRUE(TakeAll(transport).empty());
}

// Messages that the library is told to keep back for more must leave with the last one, also when they are the first of
// their stream. The library itself would send them with its keepalive, after the patience of this test.
TEST(StreamTransportTest, ABurstOnEachOfManyStreamsIsAnsweredAtOnce) {
  constexpr int kStreams = 100;
  constexpr uint32_t kCalls = 8;
  FakeServer server;
  const Workload workload = PairsOfRows();
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(server);
  MonotonicClock clock;
  for (int i = 0; i < kStreams; ++i) {
    StreamTransport transport(channel, workload, nullptr, kCalls);
    StartAll(transport, kCalls);
    for (uint32_t j = 0; j < kCalls; ++j) {  // the sending side stays open: only the last message can push the others
      CallDone done;
      ASSERT_EQ(transport.Next(clock.NowNs() + kPatienceNs, &done), Transport::NextResult::kDone)
          << "stream " << i << ", answer " << j;
      ASSERT_EQ(done.code, 0) << done.message;
    }
    transport.FinishSending();
    EXPECT_TRUE(TakeAll(transport).empty());
  }
}

TEST(StreamTransportTest, AnErrorItemIsTheOutcomeOfItsCallAlone) {
  FakeServer server(Fault::kErrorItem);
  const std::vector<CallDone> outcomes = Perform(server, 4);
  ASSERT_EQ(outcomes.size(), 4);
  for (uint32_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].slot, i);
    EXPECT_EQ(outcomes[i].code, i == 1 ? static_cast<int>(grpc::StatusCode::OUT_OF_RANGE) : 0);
    EXPECT_EQ(outcomes[i].message, i == 1 ? "ids[0] is 60, table has 60 rows" : "");
    EXPECT_EQ(outcomes[i].verdict, i == 1 ? Verdict::kUnchecked : Verdict::kVerified);
  }
}

struct WrongAnswerCase {
  const char* name;
  Fault fault;
  Verdict verdict;
  const char* complaint;
};

class WrongAnswerTest : public testing::TestWithParam<WrongAnswerCase> {};

TEST_P(WrongAnswerTest, IsSeenInTheSecondCall) {
  FakeServer server(GetParam().fault);
  const std::vector<CallDone> outcomes = Perform(server, 2);
  ASSERT_EQ(outcomes.size(), 2);
  EXPECT_EQ(outcomes[1].slot, 1);
  EXPECT_EQ(outcomes[1].code, 0);
  EXPECT_EQ(outcomes[1].verdict, GetParam().verdict);
  EXPECT_THAT(outcomes[1].message, HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongAnswerTest,
    testing::Values(WrongAnswerCase{"SwappedRows", Fault::kSwappedRows, Verdict::kMismatch, "row"},
                    WrongAnswerCase{"OtherVersion", Fault::kOtherVersion, Verdict::kMismatch, "version"},
                    WrongAnswerCase{"ShortRow", Fault::kShortRow, Verdict::kMalformed, "bytes"},
                    WrongAnswerCase{"Garbled", Fault::kGarbledAnswer, Verdict::kMalformed, "bytes cannot be read"}),
    [](const auto& test) { return std::string(test.param.name); });

struct EndCase {
  const char* name;
  Fault fault;
  int code;
  const char* message;
};

class StreamThatEndsEarlyTest : public testing::TestWithParam<EndCase> {};

TEST_P(StreamThatEndsEarlyTest, EndsEveryCallWithItsStatus) {
  FakeServer server(GetParam().fault);
  const std::vector<CallDone> outcomes = Perform(server, 6);
  ASSERT_EQ(outcomes.size(), 6);
  std::vector<int> codes;
  for (uint32_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].slot, i);
    if (i < 2) {
      EXPECT_EQ(outcomes[i].verdict, Verdict::kVerified);
      continue;
    }
    codes.push_back(outcomes[i].code);
    EXPECT_EQ(outcomes[i].message, GetParam().message);
    EXPECT_EQ(outcomes[i].verdict, Verdict::kUnchecked);
  }
  EXPECT_THAT(codes, Each(GetParam().code));
}

INSTANTIATE_TEST_SUITE_P(All, StreamThatEndsEarlyTest,
                         testing::Values(EndCase{"WithOk", Fault::kEndsEarly, 2 /* UNKNOWN */,
                                                 "the stream ended without an answer"},
                                         EndCase{"WithAnError", Fault::kBreaks, 14 /* UNAVAILABLE */, "draining"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(StreamTransportTest, CallsStartedAfterTheEndOfTheStreamGetItsStatus) {
  FakeServer server(Fault::kBreaks);
  const Workload workload = PairsOfRows();
  StreamTransport transport(ChannelTo(server), workload, nullptr, 4);
  MonotonicClock clock;
  StartAll(transport, 3);
  CallDone done;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(transport.Next(clock.NowNs() + kPatienceNs, &done), Transport::NextResult::kDone);
  }
  EXPECT_EQ(done.code, 14);
  EXPECT_EQ(transport.Next(clock.NowNs() + 1'000'000, &done), Transport::NextResult::kTimeout);
  transport.Prepare(3, 3, 0);
  transport.Start(3);
  transport.FinishSending();
  const std::vector<CallDone> late = TakeAll(transport);
  ASSERT_EQ(late.size(), 1);
  EXPECT_EQ(late[0].slot, 3);
  EXPECT_EQ(late[0].code, 14);
  EXPECT_EQ(late[0].message, "draining");
}

TEST(StreamTransportTest, AnAnswerToNothingBreaksTheStream) {
  FakeServer server(Fault::kExtraAnswer);
  const Workload workload = PairsOfRows();
  StreamTransport transport(ChannelTo(server), workload, nullptr, 2);
  MonotonicClock clock;
  StartAll(transport, 2);
  CallDone done;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(transport.Next(clock.NowNs() + kPatienceNs, &done), Transport::NextResult::kDone);
    EXPECT_EQ(done.code, 0);
  }
  // The third answer ends the stream; a call that comes then is not taken for answered by it.
  EXPECT_EQ(transport.Next(clock.NowNs() + 2'000'000'000, &done), Transport::NextResult::kTimeout);
  transport.Prepare(0, 2, 0);
  transport.Start(0);
  transport.FinishSending();
  const std::vector<CallDone> late = TakeAll(transport);
  ASSERT_EQ(late.size(), 1);
  EXPECT_EQ(late[0].code, static_cast<int>(grpc::StatusCode::CANCELLED));
}

TEST(StreamTransportTest, AServerThatIsNotThereEndsEveryCallAsUnavailable) {
  const Workload workload = PairsOfRows();
  std::shared_ptr<grpc::Channel> channel;
  {
    FakeServer server;
    channel = ChannelTo(server);
  }
  StreamTransport transport(channel, workload, nullptr, 3);
  StartAll(transport, 3);
  transport.FinishSending();
  const std::vector<CallDone> outcomes = TakeAll(transport);
  ASSERT_EQ(outcomes.size(), 3);
  for (const CallDone& done : outcomes) EXPECT_EQ(done.code, static_cast<int>(grpc::StatusCode::UNAVAILABLE));
}

TEST(StreamTransportTest, GoesWithoutAnyCall) {
  FakeServer server;
  const Workload workload = PairsOfRows();
  const StreamTransport transport(ChannelTo(server), workload, nullptr, 1);
  EXPECT_EQ(transport.bytes_sent(), 0);
}

}  // namespace
}  // namespace embedding::loadtest
