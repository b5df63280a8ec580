// The command-line client against the real server with the sample table. Expected rows, scores and neighbours: numpy
// 1.24, float64 scores of the file's F16 values, rounded to float32, ties by lower id.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/server.h"
#include "tests/end_to_end/cli_run.h"

namespace embedding {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CliEndToEndTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ServerOptions options;
    options.grpc_address = "127.0.0.1:0";
    options.admin_address = "127.0.0.1:0";
    options.log_level = "error";
    const absl::StatusOr<TableOptions> table =
        ParseTableOptions("words=" EMBEDDING_SAMPLE_DIR "/words.safetensors,vocab=words.vocab.txt");
    ASSERT_TRUE(table.ok()) << table.status();
    options.tables = {*table};
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
    const absl::Status loaded = server_->Load();
    ASSERT_TRUE(loaded.ok()) << loaded;
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static Ended Run(std::vector<std::string> arguments, const std::string& stdin_text = "") {
    return testing::RunCli(server_->grpc_address(), std::move(arguments), stdin_text);
  }

  static Server* server_;
};

Server* CliEndToEndTest::server_ = nullptr;

TEST_F(CliEndToEndTest, LookupShowsRowsWithIdsAndKeys) {
  const Ended ended = Run({"lookup", "robot", "arm", "box", "tool"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out,
              StartsWith("  ID  KEY    VECTOR (6 of 100)\n"
                         "8714  robot  0.0119018555 0.2626953 0.45117188 0.120910645 -0.4152832 -0.35424805 ...\n"
                         "2485  arm    "));
}

TEST_F(CliEndToEndTest, SimilarityOfRobotWithTheOthers) {
  EXPECT_EQ(Run({"similarity", "robot", "arm"}).out,
            "LEFT   RIGHT  SCORE (cosine, higher is closer)\nrobot  arm    0.4049158\n");
  EXPECT_EQ(Run({"similarity", "robot", "arm", "box", "tool", "--output", "csv"}).out,
            "left,right,score\nrobot,arm,0.4049158\nrobot,box,0.2798474\nrobot,tool,0.39170915\n");
  EXPECT_EQ(Run({"similarity", "robot", "arm", "--metric", "dot", "--output", "csv"}).out,
            "left,right,score\nrobot,arm,11.581044\n");
}

TEST_F(CliEndToEndTest, NeighboursOfKing) {
  const Ended ended = Run({"neighbours", "king", "--k", "10"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "king (cosine, higher is closer)\n"
            "RANK    ID  KEY      SCORE\n"
            "   1  1663  prince   0.76823825\n"
            "   2  1928  queen    0.750779\n"
            "   3   586  son      0.70207244\n"
            "   4  1107  brother  0.69856066\n"
            "   5  8553  monarch  0.69783384\n"
            "   6  6336  throne   0.6919899\n"
            "   7  1737  kingdom  0.6811095\n"
            "   8   585  father   0.6801994\n"
            "   9  3353  emperor  0.6712962\n"
            "  10   750  ii       0.66755295\n");
}

TEST_F(CliEndToEndTest, NeighboursByIdAndIncludingTheInput) {
  const Ended ended = Run({"neighbours", "--ids", "1663", "--k", "1", "--include-inputs", "--output", "csv"});
  EXPECT_EQ(ended.out, "query,rank,id,key,score\n1663,1,1663,prince,1\n");
}

TEST_F(CliEndToEndTest, KingLessManPlusWomanIsQueen) {
  const std::string want =
      "king + woman - man (cosine, higher is closer)\n"
      "RANK    ID  KEY       SCORE\n"
      "   1  1928  queen     0.76986355\n"
      "   2  8553  monarch   0.6843545\n"
      "   3  6336  throne    0.6755442\n"
      "   4  1041  daughter  0.659428\n"
      "   5  3973  princess  0.65205514\n";
  EXPECT_EQ(Run({"analogy", "king", "-", "man", "+", "woman", "-k", "5"}).out, want);
  EXPECT_EQ(Run({"analogy", "--positive", "king", "woman", "--negative", "man", "-k", "5"}).out, want);
  const Ended unknown = Run({"analogy", "king", "-", "qxzy"});
  EXPECT_EQ(unknown.code, 64 + 5);
  EXPECT_THAT(unknown.err, HasSubstr("examples.queries[0].negative[0].keys[0] \"qxzy\" is not a key"));
}

TEST_F(CliEndToEndTest, ThePianoIsNoCountry) {
  const Ended ended = Run({"odd-one-out", "france", "germany", "piano", "italy"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "piano\n\n"
            "mean of france, germany, piano, italy (cosine, higher is closer)\n"
            "RANK    ID  KEY      SCORE\n"
            "   1   471  germany  0.86329323\n"
            "   2   358  france   0.86139864\n"
            "   3   856  italy    0.85347027\n"
            "   4  4497  piano    0.5245595\n");
  EXPECT_EQ(Run({"odd-one-out", "france", "germany", "qxzy"}).code, 64 + 5);
}

TEST_F(CliEndToEndTest, NeighboursWithinAFilterAndAThreshold) {
  EXPECT_EQ(Run({"neighbours", "king", "-k", "3", "--rows", ":1000", "--deny", "586", "--output", "csv"}).out,
            "query,rank,id,key,score\nking,1,585,father,0.6801994\nking,2,750,ii,0.66755295\n"
            "king,3,604,george,0.63737863\n");
  EXPECT_EQ(Run({"neighbours", "king", "--threshold", "0.7", "--output", "csv"}).out,
            "query,rank,id,key,score\nking,1,1663,prince,0.76823825\nking,2,1928,queen,0.750779\n"
            "king,3,586,son,0.70207244\n");
  EXPECT_EQ(Run({"neighbours", "king", "--allow", "5,1663,1928,99999", "--output", "csv"}).out,
            "query,rank,id,key,score\nking,1,1663,prince,0.76823825\nking,2,1928,queen,0.750779\n"
            "king,3,5,for,0.4313504\n");
  const Ended skipped = Run({"neighbours", "qxzy", "king", "-k", "1", "--missing", "skip", "--output", "csv"});
  EXPECT_EQ(skipped.out, "query,rank,id,key,score\nking,1,1663,prince,0.76823825\n");
}

TEST_F(CliEndToEndTest, SimilarityOfMeans) {
  // king and prince on the left, queen and princess on the right.
  EXPECT_EQ(Run({"similarity", "king", "queen", "prince", "princess", "--reduce", "mean", "--layout", "pairwise",
                 "--output", "csv"})
                .out,
            "left,right,score\n\"mean of king, prince\",\"mean of queen, princess\",0.7564199\n");
}

TEST_F(CliEndToEndTest, ResolveKeysIdsAndPrefixes) {
  EXPECT_EQ(Run({"resolve", "king", "arm"}).out, "  ID  KEY\n 640  king\n2485  arm\n");
  EXPECT_EQ(Run({"resolve", "--ids", "2485,640", "--output", "csv"}).out, "id,key\n2485,arm\n640,king\n");
  EXPECT_EQ(Run({"resolve", "--prefix", "king", "--output", "csv"}).out,
            "id,key\n640,king\n1737,kingdom\n3697,kings\n9833,kingston\n");
  EXPECT_EQ(Run({"resolve", "qxzy"}).code, 64 + 5);
}

TEST_F(CliEndToEndTest, JsonIsOneDocument) {
  const Ended ended = Run({"neighbours", "king", "--k", "2", "--output", "json"});
  EXPECT_THAT(ended.out, StartsWith("{\"table\":{\"name\":\"words\",\"version\":\"1\",\"fingerprint\":\""));
  EXPECT_THAT(ended.out, HasSubstr(R"("ids":["1663","1928"])"));
  EXPECT_THAT(ended.out, HasSubstr(R"("keys":["prince","queen"])"));
}

TEST_F(CliEndToEndTest, TablesAndInfo) {
  const Ended tables = Run({"tables", "--output", "csv"});
  EXPECT_EQ(tables.code, 0) << tables.err;
  EXPECT_THAT(tables.out, HasSubstr("\nwords,1,10000,100,1000000,F16,2000000,cosine,yes,safetensors,"));
  const Ended info = Run({"info"});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_THAT(info.out, HasSubstr("max_ids             65536\n"));
}

TEST_F(CliEndToEndTest, HealthOfTheServerItsServicesAndStrangers) {
  for (const char* service : {"", "embedding.v1.EmbeddingService", "table/words"}) {
    const Ended ended = Run({"health", "--service", service});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "SERVING\n");
  }
  const Ended stranger = Run({"health", "--service", "table/other"});
  EXPECT_EQ(stranger.code, 64 + 5);
  EXPECT_EQ(stranger.err, "embedding-cli: NOT_FOUND: the server has no health service \"table/other\"\n");
}

TEST_F(CliEndToEndTest, HealthIsWatchedUntilTheDeadline) {
  const Ended ended = Run({"health", "--watch", "--deadline", "200ms"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "SERVING\n");
}

TEST_F(CliEndToEndTest, ErrorsNameTheItem) {
  const Ended missing = Run({"lookup", "robot", "qxzy"});
  EXPECT_EQ(missing.code, 64 + 5);
  EXPECT_THAT(missing.err, StartsWith("embedding-cli: NOT_FOUND (KEY_NOT_FOUND): "));
  EXPECT_THAT(missing.err, HasSubstr("qxzy"));
  EXPECT_EQ(Run({"lookup", "--ids", "10000"}).code, 64 + 11);
  EXPECT_EQ(Run({"neighbours", "king", "--k", "10001"}).code, 64 + 3);
  EXPECT_EQ(Run({"lookup", "robot", "--table", "other"}).code, 64 + 5);
}

TEST_F(CliEndToEndTest, ABatchOverTheLimitsJustWorks) {
  std::string ids;
  for (int i = 0; i < 7; ++i) ids += "0-9999\n";
  const Ended ended = Run({"lookup", "--ids", "-", "--output", "csv", "--deadline", "60s"}, ids);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 70'001);
}

}  // namespace
}  // namespace embedding
