#include "client/loadtest/load_test.h"

#include <atomic>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "client/loadtest/options.h"
#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/client/loadtest/fake_server.h"

namespace embedding::loadtest {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Runs the program's heart with this command line, without warm-up unless one is given.
Outcome Perform(const FakeServer& server, std::vector<std::string> arguments, const std::atomic<bool>* stop = nullptr) {
  static const std::atomic<bool> never{false};
  arguments.insert(arguments.end(), {"--address", server.address()});
  if (std::find(arguments.begin(), arguments.end(), "--warmup") == arguments.end()) {
    arguments.insert(arguments.end(), {"--warmup", "0s"});
  }
  const ParsedOptions parsed = ParseOptions(arguments);
  if (!parsed.options.has_value()) return {.exit_code = parsed.exit_code, .out = parsed.out, .err = parsed.err};
  std::ostringstream out, err;
  const int exit_code = PerformLoadTest(*parsed.options, stop == nullptr ? never : *stop, out, err);
  return {.exit_code = exit_code, .out = out.str(), .err = err.str()};
}

google::protobuf::Struct ParseJson(const std::string& text) {
  google::protobuf::Struct json;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &json);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << text;
  return json;
}

double Number(const google::protobuf::Struct& json, const std::string& name) {
  EXPECT_TRUE(json.fields().contains(name)) << name;
  return json.fields().contains(name) ? json.fields().at(name).number_value() : -1;
}

const google::protobuf::Struct& Sub(const google::protobuf::Struct& json, const std::string& name) {
  static const google::protobuf::Struct empty;
  EXPECT_TRUE(json.fields().contains(name)) << name;
  return json.fields().contains(name) ? json.fields().at(name).struct_value() : empty;
}

struct VerifiedCase {
  std::string name;
  std::vector<std::string> arguments;
  int64_t verified;  // answers compared in full
};

class VerifiedLoadTest : public testing::TestWithParam<VerifiedCase> {};

TEST_P(VerifiedLoadTest, ARightServerPasses) {
  FakeServer server;
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.end(), {"--requests", "200", "--verify", "--output", "json", "--fail-if", "errors>0"});
  const Outcome outcome = Perform(server, arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const google::protobuf::Struct json = ParseJson(outcome.out);
  EXPECT_EQ(Number(json, "answered"), 200);
  EXPECT_EQ(Number(Sub(json, "verification"), "mismatches"), 0);
  EXPECT_EQ(Number(Sub(json, "verification"), "malformed"), 0);
  EXPECT_EQ(Number(Sub(json, "verification"), "verified") + Number(Sub(json, "verification"), "kept_verified"),
            static_cast<double>(GetParam().verified));
  // 60 rows for the reference, each by its own call.
  EXPECT_EQ(server.calls(), 260);
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifiedLoadTest,
    testing::Values(VerifiedCase{"LookupClosed", {"--batch-size", "5"}, 200},
                    VerifiedCase{"LookupOpenPoisson", {"--rate", "4000", "--arrivals", "poisson"}, 200},
                    VerifiedCase{"LookupZipfThreeConnections", {"--ids", "zipf:1.2", "--connections", "3"}, 200},
                    VerifiedCase{"LookupLargeBatch", {"--batch-size", "900"}, 200},
                    // Of 200 calls numbers 0, 50, 100, 150 are kept.
                    VerifiedCase{"SimilarityCosine", {"--rpc", "similarity", "--concurrency", "1"}, 4},
                    VerifiedCase{"SimilarityDot", {"--rpc", "similarity", "--metric", "dot", "--concurrency", "1"}, 4},
                    VerifiedCase{"NeighboursTableMetric", {"--rpc", "neighbours", "--concurrency", "1"}, 4},
                    VerifiedCase{"NeighboursEuclidean",
                                 {"--rpc", "neighbours", "--metric", "euclidean", "--k", "7", "--batch-size", "3",
                                  "--concurrency", "1"},
                                 4},
                    VerifiedCase{"NeighboursMoreThanRows",
                                 {"--rpc", "neighbours", "--k", "100", "--metric", "dot", "--concurrency", "1"},
                                 4}),
    [](const auto& param) { return param.param.name; });

struct FaultCase {
  std::string name;
  Fault fault;
  std::vector<std::string> arguments;
  std::string complaint;
};

class FaultyServerTest : public testing::TestWithParam<FaultCase> {};

TEST_P(FaultyServerTest, IsCaught) {
  FakeServer server(GetParam().fault);
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.end(), {"--requests", "60", "--verify"});
  const Outcome outcome = Perform(server, arguments);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("WRONG ANSWERS"), HasSubstr(GetParam().complaint)));
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultyServerTest,
    testing::Values(FaultCase{"SwappedRows", Fault::kSwappedRows, {}, "is not the row of id"},
                    FaultCase{"OtherVersion", Fault::kOtherVersion, {}, "the stamp says version 4"},
                    FaultCase{"ShortRow", Fault::kShortRow, {}, "bytes of rows"},
                    FaultCase{"WrongSimilarity", Fault::kWrongScore, {"--rpc", "similarity"}, "recomputed"},
                    FaultCase{"WrongNeighbourScore", Fault::kWrongScore, {"--rpc", "neighbours"}, "recomputed"},
                    FaultCase{"MissedClosest", Fault::kMissedClosest, {"--rpc", "neighbours"}, "neighbour 0 of id"},
                    FaultCase{"Unordered", Fault::kUnordered, {"--rpc", "neighbours"}, "is out of order"}),
    [](const auto& param) { return param.param.name; });

// Shape and order are judged without --verify, too.
TEST(LoadTestTest, MalformedAnswersFailWithoutVerification) {
  FakeServer server(Fault::kShortRow);
  const Outcome outcome = Perform(server, {"--requests", "20"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("2047 bytes of data, 2048 were due"));
}

TEST(LoadTestTest, OpenLoopReportsTheThreeTimes) {
  FakeServer server;
  const Outcome outcome =
      Perform(server, {"--rate", "1000", "--duration", "300ms", "--warmup", "100ms", "--output", "json"});
  EXPECT_EQ(outcome.exit_code, 0);
  const google::protobuf::Struct json = ParseJson(outcome.out);
  EXPECT_EQ(json.fields().at("mode").string_value(), "open_loop");
  EXPECT_EQ(Number(json, "planned"), 300);
  EXPECT_EQ(Number(json, "answered"), 300);
  EXPECT_EQ(Number(json, "warmup_calls"), 100);
  for (const char* times : {"latency", "service", "send_lag"})
    EXPECT_EQ(Number(Sub(json, times), "count"), 300) << times;
  EXPECT_GE(Number(Sub(json, "latency"), "mean_ns"), Number(Sub(json, "service"), "mean_ns"));
  EXPECT_EQ(Number(Sub(json, "table"), "rows"), FakeTable::kRows);
  EXPECT_EQ(Sub(json, "options").fields().at("--rate").string_value(), "1000");
}

TEST(LoadTestTest, ClosedLoopNamesItsTimesServiceTimes) {
  FakeServer server;
  const Outcome outcome = Perform(server, {"--requests", "50"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("Closed loop: 8 callers on 2 connections"), HasSubstr("service time (closed loop)"),
                    HasSubstr("few: a rough figure"), HasSubstr("50 sent, 50 answered, 0 failed")));
}

TEST(LoadTestTest, SameSeedAsksTheSame) {
  std::multiset<std::vector<int64_t>> asked[3];
  for (const int i : {0, 1, 2}) {
    FakeServer server;
    // Whoever sends them, from however many connections.
    EXPECT_EQ(Perform(server, {"--requests", "40", "--batch-size", "4", "--rate", "5000", "--seed", i == 2 ? "8" : "7",
                               "--connections", i == 0 ? "1" : "4"})
                  .exit_code,
              0);
    for (const std::vector<int64_t>& ids : server.lookups()) asked[i].insert(ids);
  }
  EXPECT_EQ(asked[0], asked[1]);
  EXPECT_NE(asked[0], asked[2]);
}

TEST(LoadTestTest, ErrorsAloneDoNotFailTheTest) {
  FakeServer server(Fault::kUnavailable);
  // One id a call is answered, more are not: here all calls fail.
  const Outcome all = Perform(server, {"--requests", "10", "--concurrency", "2", "--output", "json"});
  EXPECT_EQ(all.exit_code, 78);
  const google::protobuf::Struct json = ParseJson(all.out);
  EXPECT_EQ(Number(json, "failed"), 10);
  const google::protobuf::Struct& error = json.fields().at("errors").list_value().values(0).struct_value();
  EXPECT_EQ(Number(error, "code"), 14);
  EXPECT_EQ(error.fields().at("name").string_value(), "UNAVAILABLE");
  EXPECT_EQ(error.fields().at("first_message").string_value(), "draining");
}

TEST(LoadTestTest, MissedThresholdIs99) {
  FakeServer server;
  const Outcome outcome = Perform(server, {"--requests", "20", "--fail-if", "p50>0us", "--fail-if", "errors>0"});
  EXPECT_EQ(outcome.exit_code, 99);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("FAILED  fail if p50>0us"), HasSubstr("passed  fail if errors>0")));
}

TEST(LoadTestTest, InterruptedRunReportsWhatItMeasured) {
  FakeServer server;
  std::atomic<bool> stop{false};
  server.StopAfter(50, &stop);
  const Outcome outcome = Perform(server, {"--duration", "1h"}, &stop);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("INTERRUPTED"), HasSubstr("p99.9")));
}

// The call that waited for its planned time is never sent.
TEST(LoadTestTest, InterruptedOpenLoopDoesNotWaitForItsSchedule) {
  FakeServer server;
  std::atomic<bool> stop{false};
  server.StopAfter(1, &stop);
  const Outcome outcome = Perform(server, {"--rate", "0.01", "--requests", "5", "--connections", "2"}, &stop);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(server.calls(), 1);
}

TEST(LoadTestTest, ReportFileHoldsJson) {
  FakeServer server;
  const std::string path = testing::TempDir() + "loadtest_report.json";
  EXPECT_EQ(Perform(server, {"--requests", "20", "--report", path}).exit_code, 0);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(Number(ParseJson(text.str()), "answered"), 20);
  const Outcome bad = Perform(server, {"--requests", "20", "--report", "/nonexistent/report.json"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("No such file or directory"));
}

TEST(LoadTestTest, ReportOnStdoutSendsTheTextToStderr) {
  FakeServer server;
  const Outcome outcome = Perform(server, {"--requests", "20", "--report", "-"});
  EXPECT_EQ(Number(ParseJson(outcome.out), "answered"), 20);
  EXPECT_THAT(outcome.err, HasSubstr("Closed loop"));
}

TEST(LoadTestTest, UnknownTableIsTheServersStatus) {
  FakeServer server;
  const Outcome outcome = Perform(server, {"--table", "wrods"});
  EXPECT_EQ(outcome.exit_code, 64 + 5);
  EXPECT_THAT(outcome.err, HasSubstr("no table \"wrods\""));
  EXPECT_THAT(outcome.out, IsEmpty());
}

struct LimitCase {
  std::vector<std::string> arguments;
  std::string complaint;
};

class LimitTest : public testing::TestWithParam<LimitCase> {};

TEST_P(LimitTest, OfTheServerIsNamedBeforeTheTest) {
  FakeServer server;
  const Outcome outcome = Perform(server, GetParam().arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().complaint));
  EXPECT_EQ(server.calls(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, LimitTest,
    testing::Values(LimitCase{{"--batch-size", "1001"}, "--batch-size is 1001, the server allows 1000 (max_ids)"},
                    // 30,000 bytes of answer hold 937 rows of 32 bytes.
                    LimitCase{{"--batch-size", "938"}, "the server allows 937"},
                    LimitCase{{"--rpc", "similarity", "--batch-size", "501"}, "allows 500 (max_pairs)"},
                    LimitCase{{"--rpc", "neighbours", "--batch-size", "21"}, "allows 20 (max_queries)"},
                    LimitCase{{"--rpc", "neighbours", "--k", "101"}, "--k is 101, the server allows 100 (max_k)"}));

}  // namespace
}  // namespace embedding::loadtest
