#include "server/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Command = CommandLine::Command;

CommandLine Parsed(const std::vector<std::string>& arguments) {
  const auto line = ParseCommandLine(arguments);
  EXPECT_TRUE(line.ok()) << line.status();
  return line.ok() ? *line : CommandLine();
}

std::string Refusal(const std::vector<std::string>& arguments) {
  return std::string(ParseCommandLine(arguments).status().message());
}

TEST(CommandLineTest, FlagsAreGivenWithOrWithoutEqualsSign) {
  EXPECT_THAT(Parsed({"--max-k=5", "--threads", "2"}).flags,
              ElementsAre(Pair("max-k", ElementsAre("5")), Pair("threads", ElementsAre("2"))));
  EXPECT_THAT(Parsed({"--max-k=5", "--max-k=6"}).flags, ElementsAre(Pair("max-k", ElementsAre("6"))));
  EXPECT_THAT(Parsed({"--table", "a=b,vocab=c", "--table=d=e"}).flags,
              ElementsAre(Pair("table", ElementsAre("a=b,vocab=c", "d=e"))));
  EXPECT_THAT(Parsed({"--max-ids=-5"}).flags, ElementsAre(Pair("max-ids", ElementsAre("-5"))));
}

TEST(CommandLineTest, FlagsStandBeforeOrAfterTheCommand) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--max-k=5", "config", "--json"}, {"config", "--json", "--max-k=5"}}) {
    const CommandLine line = Parsed(arguments);
    EXPECT_EQ(line.command, Command::kConfig);
    EXPECT_TRUE(line.json);
    EXPECT_THAT(line.flags, ElementsAre(Pair("max-k", ElementsAre("5"))));
  }
}

TEST(CommandLineTest, CommandsAreTold) {
  EXPECT_EQ(Parsed({}).command, Command::kServe);
  EXPECT_EQ(Parsed({"--version"}).command, Command::kVersion);
  EXPECT_EQ(Parsed({"--help"}).command, Command::kHelp);
  EXPECT_EQ(Parsed({"health", "-h"}).command, Command::kHelp);
  const CommandLine health = Parsed({"health", "--address=h:1", "--service", "table/a", "--timeout=2s"});
  EXPECT_EQ(health.command, Command::kHealth);
  EXPECT_EQ(health.health_address, "h:1");
  EXPECT_EQ(health.health_service, "table/a");
  EXPECT_EQ(health.health_timeout, "2s");
}

TEST(CommandLineTest, EveryFlagIsInTheHelpWithVariableAndDefault) {
  const std::string help = Parsed({"--help"}).help;
  for (const Setting& setting : Settings()) {
    EXPECT_THAT(help, HasSubstr("--" + setting.flag + " "));
    EXPECT_THAT(help, HasSubstr("[env: " + EnvironmentName(setting.flag) + "] [default: "));
  }
}

TEST(CommandLineTest, UnknownWordsAreAnsweredWithTheNearest) {
  EXPECT_EQ(Refusal({"--grpc-adress=1"}), "unknown flag --grpc-adress; did you mean --grpc-address?");
  EXPECT_EQ(Refusal({"--jsn"}), "unknown flag --jsn; did you mean --json?");
  EXPECT_EQ(Refusal({"--qwertyuiop"}), "unknown flag --qwertyuiop; see --help");
  EXPECT_EQ(Refusal({"helth"}), "unknown command helth; did you mean health?");
  EXPECT_EQ(Refusal({"config", "now"}), "unknown command now; see --help");
  EXPECT_THAT(Refusal({"--threads"}), HasSubstr("--threads"));
  EXPECT_EQ(Refusal({"config", "health"}), "health has no place here; see --help");
  EXPECT_EQ(Refusal({"config", "--address=x"}), "--address has no place here; see --help");
  EXPECT_EQ(Refusal({"--json"}), "--json has no place here; see --help");
}

}  // namespace
}  // namespace embedding
