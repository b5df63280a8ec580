#include "client/cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace embedding::client {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class FlagsTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("EMBEDDING_ADDRESS"); }
  void TearDown() override { unsetenv("EMBEDDING_ADDRESS"); }
};

Command Parsed(const std::vector<std::string>& arguments) {
  const ParsedLine line = ParseCommandLine(arguments);
  EXPECT_TRUE(line.command.has_value()) << line.err;
  return line.command.value_or(Command());
}

TEST_F(FlagsTest, DefaultsAreThoseOfTheHelp) {
  const Command command = Parsed({"neighbours", "king"});
  EXPECT_EQ(command.kind, CommandKind::kNeighbours);
  EXPECT_EQ(command.client.address, "127.0.0.1:50051");
  EXPECT_EQ(command.client.deadline, milliseconds(5000));
  EXPECT_EQ(command.output, Output::kTable);
  EXPECT_EQ(command.k, 10);
  EXPECT_EQ(command.metric, Metric::kTableDefault);
  EXPECT_FALSE(command.include_inputs);
  EXPECT_THAT(command.keys, ElementsAre("king"));
}

TEST_F(FlagsTest, FlagsComeInAnyOrderAroundTheCommand) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"-a", "h:1", "--k", "3", "neighbours", "king", "--metric", "dot"},
           {"neighbours", "king", "--metric", "dot", "-a", "h:1", "--k", "3"},
           {"--metric=dot", "neighbours", "--k=3", "--address=h:1", "king"},
           {"--k", "3", "--metric", "dot", "-a", "h:1", "neighbors", "king"},
       }) {
    const Command command = Parsed(arguments);
    EXPECT_EQ(command.kind, CommandKind::kNeighbours);
    EXPECT_EQ(command.client.address, "h:1");
    EXPECT_EQ(command.k, 3);
    EXPECT_EQ(command.metric, Metric::kDot);
    EXPECT_THAT(command.keys, ElementsAre("king"));
  }
}

TEST_F(FlagsTest, SearchesTakeFiltersAndThresholds) {
  const Command plain = Parsed({"neighbours", "king"});
  EXPECT_FALSE(plain.allow_given);
  EXPECT_FALSE(plain.threshold.has_value());
  EXPECT_EQ(plain.missing, MissingPolicy::kError);
  for (const char* name : {"neighbours", "analogy"}) {
    const Command command = Parsed({name, "king", "--allow", "1-3", "--allow", "9", "--deny", "2", "--rows",
                                    "5:", "--threshold", "-0.5", "--missing", "skip"});
    EXPECT_THAT(command.keys, ElementsAre("king"));
    EXPECT_THAT(command.allow, ElementsAre("1-3", "9"));
    EXPECT_TRUE(command.allow_given);
    EXPECT_THAT(command.deny, ElementsAre("2"));
    EXPECT_EQ(command.rows, "5:");
    EXPECT_EQ(command.threshold, -0.5f);
    EXPECT_EQ(command.missing, MissingPolicy::kSkip);
  }
}

TEST_F(FlagsTest, AnalogiesOddOnesAndResolve) {
  const Command said = Parsed({"analogy", "king", "-", "man", "+", "woman", "-k", "3"});
  EXPECT_THAT(said.keys, ElementsAre("king", "-", "man", "+", "woman"));
  EXPECT_EQ(said.k, 3);
  const Command named = Parsed({"analogy", "--positive", "king", "woman", "--negative", "man"});
  EXPECT_THAT(named.positive, ElementsAre("king", "woman"));
  EXPECT_THAT(named.negative, ElementsAre("man"));
  EXPECT_THAT(Parsed({"odd-one-out", "a", "b", "c"}).keys, ElementsAre("a", "b", "c"));
  EXPECT_FALSE(Parsed({"resolve", "a"}).prefix.has_value());
  EXPECT_EQ(Parsed({"resolve", "--prefix", ""}).prefix, "");
  EXPECT_EQ(Parsed({"resolve", "--prefix", "a", "--limit", "3"}).limit, 3);
  EXPECT_EQ(ParseCommandLine({"resolve", "--prefix", "a", "--limit", "10001"}).exit_code, 2);
  EXPECT_EQ(ParseCommandLine({"neighbours", "a", "--missing", "zero"}).exit_code, 2);
  EXPECT_EQ(ParseCommandLine({"similarity", "a", "b", "--missing", "skip"}).exit_code, 2);
  EXPECT_EQ(Parsed({"similarity", "a", "b", "--reduce", "mean"}).reduce, Reduce::kMean);
}

TEST_F(FlagsTest, LookupTakesWhatBecomesOfItsRows) {
  const Command plain = Parsed({"lookup", "a"});
  EXPECT_EQ(plain.missing, MissingPolicy::kError);
  EXPECT_EQ(plain.pooling, std::nullopt);
  EXPECT_EQ(plain.dimensions, 0);
  const Command command = Parsed({"lookup", "a", "--missing", "default-row", "b", "--pooling", "sum", "--offsets",
                                  "0,1", "c", "--weights", "1,-0.5,2", "--normalize", "--dimensions", "64"});
  EXPECT_THAT(command.keys, ElementsAre("a", "b", "c"));
  EXPECT_EQ(command.missing, MissingPolicy::kDefaultRow);
  EXPECT_EQ(command.pooling, PoolingMode::kSum);
  EXPECT_THAT(command.offsets, ElementsAre(0, 1));
  EXPECT_THAT(command.weights, ElementsAre(1, -0.5f, 2));
  EXPECT_TRUE(command.normalize);
  EXPECT_EQ(command.dimensions, 64);
}

TEST_F(FlagsTest, FlagsOfPoolingNeedIt) {
  EXPECT_THAT(ParseCommandLine({"lookup", "a", "--offsets", "0"}).err, HasSubstr("--offsets needs --pooling"));
  EXPECT_THAT(ParseCommandLine({"lookup", "a", "--pooling", "mean", "--weights", "1"}).err,
              HasSubstr("--weights needs --pooling sum"));
  EXPECT_EQ(ParseCommandLine({"lookup", "a", "--missing", "drop"}).exit_code, 2);
  EXPECT_EQ(ParseCommandLine({"lookup", "a", "--pooling", "avg"}).exit_code, 2);
  EXPECT_EQ(ParseCommandLine({"lookup", "a", "--dimensions", "-1"}).exit_code, 2);
}

TEST_F(FlagsTest, WordsAfterTheCommandAreKeysWhateverTheySay) {
  EXPECT_THAT(Parsed({"lookup", "info", "42", "-", "tables"}).keys, ElementsAre("info", "42", "-", "tables"));
  EXPECT_THAT(Parsed({"lookup", "--", "--table", "-x"}).keys, ElementsAre("--table", "-x"));
}

TEST_F(FlagsTest, IdsAndVectorsTakeOneWordEach) {
  const Command command = Parsed({"similarity", "--ids", "0-9,17", "robot", "--ids", "3", "--vector", "-1,.5"});
  EXPECT_THAT(command.ids, ElementsAre("0-9,17", "3"));
  EXPECT_THAT(command.keys, ElementsAre("robot"));
  EXPECT_THAT(command.vectors, ElementsAre("-1,.5"));
}

TEST_F(FlagsTest, AddressComesFromFlagThenEnvironment) {
  setenv("EMBEDDING_ADDRESS", "unix:/run/e.sock", 1);
  EXPECT_EQ(Parsed({"info"}).client.address, "unix:/run/e.sock");
  EXPECT_EQ(Parsed({"info", "-a", "h:1"}).client.address, "h:1");
}

TEST_F(FlagsTest, EveryChoiceIsRead) {
  EXPECT_EQ(Parsed({"similarity", "a", "b", "--layout", "all-pairs"}).pairing, Pairing::kAllPairs);
  EXPECT_EQ(Parsed({"similarity", "a", "b", "--layout", "pairwise"}).pairing, Pairing::kPairwise);
  EXPECT_EQ(Parsed({"similarity", "a", "b", "--metric", "euclidean"}).metric, Metric::kEuclidean);
  EXPECT_EQ(Parsed({"info", "--output", "jsonl"}).output, Output::kJsonl);
  EXPECT_EQ(Parsed({"info", "--output", "csv"}).output, Output::kCsv);
  EXPECT_TRUE(Parsed({"neighbours", "a", "--vectors", "--include-inputs"}).return_vectors);
  EXPECT_EQ(Parsed({"tables", "--table", "words"}).table, "words");
  const Command health = Parsed({"health", "--service", "table/words", "--watch", "--deadline", "250ms"});
  EXPECT_EQ(health.service, "table/words");
  EXPECT_TRUE(health.watch);
  EXPECT_TRUE(health.deadline_given);
  EXPECT_EQ(health.client.deadline, milliseconds(250));
}

TEST_F(FlagsTest, HelpAndVersionGoToStdoutAndEndWell) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"-h"}, {"lookup", "--help"}, {"neighbours", "-h"}}) {
    const ParsedLine line = ParseCommandLine(arguments);
    EXPECT_FALSE(line.command.has_value());
    EXPECT_EQ(line.exit_code, 0);
    EXPECT_THAT(line.out, HasSubstr("--address"));
    EXPECT_THAT(line.out, HasSubstr("EMBEDDING_ADDRESS"));
    EXPECT_EQ(line.err, "");
  }
  const ParsedLine version = ParseCommandLine({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, testing::ContainsRegex("^embedding-cli [0-9]+\\.[0-9]+\\.[0-9]+ \\(.+\\)\n$"));
}

TEST_F(FlagsTest, WrongUsageSaysWhatAndEndsWith2) {
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{}, "embedding-cli: a command is needed"},
      {{"lokup", "a"}, "unknown command \"lokup\"; did you mean lookup?"},
      {{"frobnicate"}, "unknown command \"frobnicate\"\n"},
      {{"lookup", "a", "--tabel", "x"}, "unknown flag --tabel; did you mean --table?"},
      {{"lookup", "a", "--zzzzzz"}, "unknown flag --zzzzzz\n"},
      {{"info", "--table", "x"}, "unknown flag --table"},
      {{"lookup", "a", "--k", "3"}, "unknown flag --k"},
      {{"info", "robot"}, "unexpected word \"robot\""},
      {{"neighbours", "a", "--k", "0"}, "--k: Value 0 not in range 1 to 2147483647"},
      {{"neighbours", "a", "--k", "many"}, "--k"},
      {{"neighbours", "a", "--metric", "cosin"}, "--metric: cosin not in {cosine,dot,euclidean}"},
      {{"info", "--output", "xml"}, "--output: xml not in {table,json,jsonl,csv}"},
      {{"info", "--deadline", "5"}, "--deadline: \"5\" is no duration in 1ms..24h"},
      {{"info", "--deadline", "0s"}, "--deadline: \"0s\" is no duration in 1ms..24h"},
      {{"info", "--deadline", "-3s"}, "--deadline: \"-3s\" is no duration in 1ms..24h"},
      {{"info", "--deadline", "25h"}, "--deadline: \"25h\" is no duration in 1ms..24h"},
      {{"info", "--address"}, "--address"},
  };
  for (const auto& c : cases) {
    const ParsedLine line = ParseCommandLine(c.arguments);
    EXPECT_FALSE(line.command.has_value());
    EXPECT_EQ(line.exit_code, 2) << c.message;
    EXPECT_EQ(line.out, "");
    EXPECT_THAT(line.err, StartsWith("embedding-cli: "));
    EXPECT_THAT(line.err, HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace embedding::client
