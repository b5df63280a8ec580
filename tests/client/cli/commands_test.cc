#include "client/cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "proto/status_codec.h"
#include "tests/client/fake_service.h"

namespace embedding::client {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_support::FakeService;

struct Ended {
  int code = 0;
  std::string out;
  std::string err;
};

// Runs the command line against an address, as the binary would.
Ended RunAt(const std::string& address, std::vector<std::string> arguments, const std::string& stdin_text = "") {
  arguments.insert(arguments.end(), {"--address", address});
  const ParsedLine line = ParseCommandLine(arguments);
  if (!line.command) return {line.exit_code, line.out, line.err};
  std::istringstream in(stdin_text);
  std::ostringstream out;
  std::ostringstream err;
  const int code = RunCommand(*line.command, in, out, err);
  return {code, out.str(), err.str()};
}

class CommandsTest : public testing::Test {
 protected:
  Ended Run(std::vector<std::string> arguments, const std::string& stdin_text = "") {
    return RunAt(fake_.address(), std::move(arguments), stdin_text);
  }

  FakeService fake_{{}};
};

TEST_F(CommandsTest, LookupByIdsShowsKeysAndByKeysShowsIds) {
  const Ended by_id = Run({"lookup", "--ids", "5,3"});
  EXPECT_EQ(by_id.code, 0) << by_id.err;
  EXPECT_EQ(by_id.out, "ID  KEY  VECTOR\n 5  k5   500 501 502\n 3  k3   300 301 302\n");
  EXPECT_EQ(Run({"lookup", "k5", "k3"}).out, by_id.out);
  EXPECT_EQ(by_id.err, "");
}

TEST_F(CommandsTest, LookupReadsStdin) {
  EXPECT_EQ(Run({"lookup", "-", "--output", "csv"}, "k1\nk2\n").out,
            "id,key,x0,x1,x2\n1,k1,100,101,102\n2,k2,200,201,202\n");
  EXPECT_EQ(Run({"lookup", "--ids", "-", "--output", "csv"}, "1-2\n").out,
            "id,key,x0,x1,x2\n1,k1,100,101,102\n2,k2,200,201,202\n");
}

// The fake's scores are 1000 * left + right.
TEST_F(CommandsTest, SimilarityPairsOperandsByTheLayout) {
  EXPECT_EQ(Run({"similarity", "k1", "k2", "k3", "--output", "csv"}).out, "left,right,score\nk1,k2,1002\nk1,k3,1003\n");
  EXPECT_EQ(Run({"similarity", "k1", "k2", "k3", "k4", "--layout", "pairwise", "--output", "csv"}).out,
            "left,right,score\nk1,k2,1002\nk3,k4,3004\n");
  EXPECT_EQ(Run({"similarity", "--ids", "1,2", "--layout", "all-pairs", "--output", "csv"}).out,
            "left,right,score\n1,1,1001\n1,2,1002\n2,1,2001\n2,2,2002\n");
}

TEST_F(CommandsTest, SimilarityOfVectorsWithRowsPutsVectorsLeft) {
  EXPECT_EQ(Run({"similarity", "--vector", "7,0,0", "k1", "k2", "--output", "csv"}).out,
            "left,right,score\nvector 0,k1,7001\nvector 0,k2,7002\n");
  EXPECT_EQ(Run({"similarity", "--vector", "7,0,0", "--vector", "8,0,0", "k1", "k2", "--layout", "pairwise", "--output",
                 "csv"})
                .out,
            "left,right,score\nvector 0,k1,7001\nvector 1,k2,8002\n");
}

TEST_F(CommandsTest, SimilarityOfVectorsAloneNumbersThem) {
  EXPECT_EQ(Run({"similarity", "--vector", "3,4", "--vector", "4,3", "--output", "csv"}).out,
            "left,right,score\nvector 0,vector 1,3004\n");
  EXPECT_EQ(Run({"similarity", "--vector", "-", "--layout", "pairwise", "--output", "csv"}, "1 0\n2 0\n3 0\n4 0\n").out,
            "left,right,score\nvector 0,vector 1,1002\nvector 2,vector 3,3004\n");
}

TEST_F(CommandsTest, NeighboursShowKeys) {
  EXPECT_EQ(Run({"neighbours", "--ids", "10", "--k", "2"}).out,
            "k10 (id 10) (dot, higher is closer)\nRANK  ID  KEY  SCORE\n   1  11  k11  1\n   2  12  k12  2\n");
  EXPECT_EQ(Run({"neighbours", "--vector", "20,0,0", "--k", "1", "--output", "jsonl"}).out,
            "{\"query\":\"vector 0\",\"ids\":[21],\"scores\":[1],\"keys\":[\"k21\"]}\n");
}

TEST_F(CommandsTest, WordsThatCannotBeReadAreUsage) {
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{"lookup"}, "nothing named: give keys as words, or --ids"},
      {{"lookup", "k1", "--ids", "1"}, "name rows either by keys or by --ids, not by both"},
      {{"lookup", "--ids", "x"}, "--ids: \"x\" is neither an id"},
      {{"similarity"}, "nothing named: give keys as words, --ids or --vector"},
      {{"similarity", "k1"}, "similarity needs two or more rows or vectors, given 1"},
      {{"similarity", "k1", "k2", "k3", "--layout", "pairwise"},
       "--layout pairwise needs an even number of operands, given 3"},
      {{"similarity", "k1", "k2", "--vector", "1,2", "--layout", "pairwise"},
       "--layout pairwise needs as many vectors as rows, given 1 and 2"},
      {{"similarity", "--vector", "1,2", "--vector", "1"}, "--vector: vector 1 has 1 numbers, vector 0 has 2"},
      {{"neighbours"}, "nothing named: give keys as words, --ids or --vector"},
      {{"neighbours", "k1", "--vector", "1,2"}, "give rows or --vector, not both"},
      {{"neighbours", "k1", "--allow", "x"}, "--allow: \"x\" is neither an id"},
      {{"neighbours", "k1", "--deny", "3-1"}, "--deny: the range \"3-1\" runs backwards"},
      {{"neighbours", "k1", "--rows", "7"}, "--rows: \"7\" is no range of rows such as 0:1000, :1000 or 500:"},
      {{"neighbours", "-", "--allow", "-"}, "\"-\" is given twice, but stdin can be read once"},
      {{"analogy"}, "nothing named: give words such as king - man + woman, --positive or --negative"},
      {{"analogy", "k1", "k2"}, "\"k2\" has no sign"},
      {{"odd-one-out", "k1", "k2", "k1"}, "odd-one-out needs three different words or more"},
      {{"resolve"}, "nothing named: give keys as words, --ids or --prefix"},
      {{"resolve", "k1", "--prefix", "k"}, "give rows or --prefix, not both"},
  };
  for (const auto& c : cases) {
    const Ended ended = Run(c.arguments);
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, HasSubstr(std::string("embedding-cli: ") + c.message));
  }
  EXPECT_EQ(fake_.calls(), 0);
}

TEST_F(CommandsTest, SearchFlagsReachTheServer) {
  const Ended ended = Run({"neighbours", "k1", "--allow", "3,5-6", "--allow", "9", "--deny", "-", "--rows", "2:8",
                           "--threshold", "-0.5", "--missing", "skip"},
                          "7\n");
  EXPECT_EQ(ended.code, 0) << ended.err;
  const v1::NearestNeighbourRequest sent = fake_.last_search();
  EXPECT_THAT(sent.filter().allow().values(), testing::ElementsAre(3, 5, 6, 9));
  EXPECT_THAT(sent.filter().deny().values(), testing::ElementsAre(7));
  EXPECT_EQ(sent.filter().first_row(), 2);
  EXPECT_EQ(sent.filter().end_row(), 8);
  EXPECT_EQ(sent.score_threshold(), -0.5f);
  EXPECT_EQ(sent.missing(), v1::MISSING_POLICY_SKIP);
  EXPECT_EQ(Run({"neighbours", "k1"}).code, 0);
  EXPECT_FALSE(fake_.last_search().filter().has_allow());
  EXPECT_FALSE(fake_.last_search().has_score_threshold());
}

// The fake's number of a query is the sum of its positives less its negatives.
TEST_F(CommandsTest, AnalogyIsSaidOrNamed) {
  const std::string want =
      "k9 + k5 - k2 (dot, higher is closer)\nRANK  ID  KEY  SCORE\n   1  13  k13  1\n   2  14  k14  2\n";
  EXPECT_EQ(Run({"analogy", "k9", "-", "k2", "+", "k5", "--k", "2"}).out, want);
  EXPECT_EQ(Run({"analogy", "--positive", "k9", "k5", "--negative", "k2", "--k", "2"}).out, want);
  EXPECT_THAT(Run({"analogy", "k9", "-", "k2", "--k", "1", "--output", "json"}).out, HasSubstr(R"("ids":["8"])"));
  EXPECT_EQ(Run({"analogy", "k9", "--k", "1", "--output", "csv"}).out, "query,rank,id,key,score\nk9,1,10,k10,1\n");
}

TEST_F(CommandsTest, MissingRowsAreShownAsSuch) {
  EXPECT_EQ(Run({"neighbours", "--ids", "1,1000", "--k", "1", "--missing", "skip"}).out,
            "k1 (id 1) (dot, higher is closer)\nRANK  ID  KEY  SCORE\n   1   2  k2   1\n\n"
            "id 1000 (missing) (dot, higher is closer)\nRANK  ID  SCORE\n");
  EXPECT_EQ(Run({"similarity", "k1", "k1000", "--missing", "zero"}).out,
            "LEFT  RIGHT            SCORE (euclidean, lower is closer)\nk1    k1000 (missing)  2000\n");
}

TEST_F(CommandsTest, ReduceMeanGivesOneScore) {
  EXPECT_EQ(Run({"similarity", "k1", "k3", "k5", "--reduce", "mean"}).out,
            "LEFT        RIGHT           SCORE (euclidean, lower is closer)\nmean of k1  mean of k3, k5  1004\n");
  EXPECT_THAT(Run({"similarity", "k1", "k3", "--reduce", "mean", "--output", "json"}).out,
              HasSubstr(R"("shape":["1"])"));
}

TEST_F(CommandsTest, ResolveGoesBothWaysAndByPrefix) {
  EXPECT_EQ(Run({"resolve", "k7", "k5"}).out, "ID  KEY\n 7  k7\n 5  k5\n");
  EXPECT_EQ(Run({"resolve", "--ids", "3-4", "--output", "csv"}).out, "id,key\n3,k3\n4,k4\n");
  EXPECT_EQ(Run({"resolve", "--prefix", "k", "--limit", "2", "--output", "jsonl"}).out,
            "{\"id\":0,\"key\":\"k0\"}\n{\"id\":1,\"key\":\"k1\"}\n");
  EXPECT_THAT(Run({"resolve", "k7", "--output", "json"}).out, HasSubstr(R"("ids":["7"],"keys":["k7"])"));
}

TEST_F(CommandsTest, AnErrorOfTheServerIs64AndItsNumber) {
  const Ended not_found = Run({"tables", "--table", "other"});
  EXPECT_EQ(not_found.code, 64 + 5);
  EXPECT_EQ(not_found.out, "");
  EXPECT_EQ(not_found.err, "embedding-cli: NOT_FOUND (TABLE_NOT_FOUND): no table \"other\"\n");
  const Ended out_of_range = Run({"lookup", "--ids", "1000"});
  EXPECT_EQ(out_of_range.code, 64 + 11);
  EXPECT_THAT(out_of_range.err, StartsWith("embedding-cli: OUT_OF_RANGE (ID_OUT_OF_RANGE): ids[0] is 1000"));
}

TEST_F(CommandsTest, OutputThatCannotBeWrittenIs1) {
  ParsedLine line = ParseCommandLine({"info", "--address", fake_.address()});
  std::istringstream in;
  std::ostringstream err;
  std::ostream closed(nullptr);
  EXPECT_EQ(RunCommand(*line.command, in, closed, err), 1);
  EXPECT_EQ(err.str(), "embedding-cli: stdout could not be written\n");
}

TEST(CommandsWithoutServerTest, SilenceIsExplained) {
  const std::string address = "unix:" + testing::TempDir() + "no-such-socket";
  for (const char* command : {"info", "tables", "health"}) {
    const Ended ended = RunAt(address, {command});
    EXPECT_EQ(ended.code, 64 + 14);
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err, "embedding-cli: UNAVAILABLE: nothing listens on " + address +
                             " (No such file or directory); start embedding-server there, or name another address by"
                             " --address or EMBEDDING_ADDRESS\n");
  }
}

TEST(CommandsWithFailuresTest, KeysOfATableWithoutKeysSuggestIds) {
  FakeService fake({}, [](int, grpc::ServerContext&, FakeService::Settings&) {
    return ToGrpcStatus(ErrorWithDetails(absl::StatusCode::kFailedPrecondition, "table \"x\" has no keys",
                                         {.reason = "NO_KEYS", .metadata = {}, .violations = {}}));
  });
  const Ended ended = RunAt(fake.address(), {"lookup", "k1"});
  EXPECT_EQ(ended.code, 64 + 9);
  EXPECT_EQ(ended.err,
            "embedding-cli: FAILED_PRECONDITION (NO_KEYS): table \"x\" has no keys; name its rows by --ids\n");
}

}  // namespace
}  // namespace embedding::client
