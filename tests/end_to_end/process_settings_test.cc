// What the server makes of its settings, told from outside: exit codes, messages, precedence, addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/end_to_end/child_server.h"

namespace embedding::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct BadSetting {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<std::string> told;  // what the message must hold
};

class BadSettingTest : public ::testing::TestWithParam<BadSetting> {};

TEST_P(BadSettingTest, EndsWithTwoAndOneLineThatNamesIt) {
  const RunResult result = RunServer(GetParam().arguments, GetParam().environment);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, IsEmpty());
  EXPECT_THAT(result.errors, StartsWith("embedding-server: "));
  EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  for (const std::string& part : GetParam().told) EXPECT_THAT(result.errors, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSettingTest,
    ::testing::Values(
        BadSetting{"NoTable", {}, {}, {"--table NAME=PATH", "words.safetensors"}},
        BadSetting{
            "UnknownFlag", {"--grpc-adress=x"}, {}, {"unknown flag --grpc-adress", "did you mean --grpc-address?"}},
        BadSetting{"UnknownCommand", {"confg"}, {}, {"unknown command confg", "did you mean config?"}},
        BadSetting{"StrayWord", {"--table", "a=b", "c=d"}, {}, {"unknown command c"}},
        BadSetting{"MissingValue", {"--threads"}, {}, {"--threads"}},
        BadSetting{"NegativeLimit", {"--max-ids=-5"}, {}, {"--max-ids is '-5'", "whole number from 1 to 16777216"}},
        BadSetting{"Exponent", {"--max-ids=1e9"}, {}, {"--max-ids is '1e9'", "from 1 to 16777216"}},
        BadSetting{"TooLarge", {"--max-queries=65537"}, {}, {"--max-queries is '65537'", "from 1 to 65536"}},
        BadSetting{"Overflow", {"--max-k=99999999999999999999"}, {}, {"--max-k is '99999999999999999999'"}},
        BadSetting{"Zero", {"--max-pairs=0"}, {}, {"--max-pairs is '0'", "from 1"}},
        BadSetting{
            "Port", {"--grpc-address=127.0.0.1:70000"}, {}, {"--grpc-address is '127.0.0.1:70000'", "0 to 65535"}},
        BadSetting{"NoPort", {"--admin-address=127.0.0.1"}, {}, {"--admin-address is '127.0.0.1'", "HOST:PORT"}},
        BadSetting{"AdminOnUnix", {"--admin-address=unix:/tmp/x"}, {}, {"--admin-address is 'unix:/tmp/x'"}},
        BadSetting{"UnixPathTooLong",
                   {absl::StrCat("--grpc-address=unix:/", std::string(200, 'x'))},
                   {},
                   {"--grpc-address is ", "1 to 107 bytes"}},
        BadSetting{"EmptyTablePath", {"--table=words="}, {}, {"--table is 'words='"}},
        BadSetting{"TableName", {"--table=a b=x.npy"}, {}, {"--table is 'a b=x.npy'"}},
        BadSetting{"TableKey", {"--table=a=x.npy,speed=9"}, {}, {"--table is 'a=x.npy,speed=9'", "speed"}},
        BadSetting{"SameNameTwice", {"--table=a=x.npy", "--table=a=y.npy"}, {}, {"--table", "two tables", "'a'"}},
        BadSetting{"DurationWithoutUnit", {"--drain-timeout=30"}, {}, {"--drain-timeout is '30'", "500ms, 30s or 2m"}},
        BadSetting{"DurationTooLong", {"--max-deadline=25h"}, {}, {"--max-deadline is '25h'", "from 1ms to 24h"}},
        BadSetting{"Size", {"--max-request-bytes=16MB"}, {}, {"--max-request-bytes is '16MB'", "16MiB"}},
        BadSetting{"Boolean", {"--reflection=yes"}, {}, {"--reflection is 'yes'", "true or false"}},
        BadSetting{"Choice", {"--log-format=xml"}, {}, {"--log-format is 'xml'", "text, json"}},
        BadSetting{"LogLevel", {"--log-level=loud"}, {}, {"--log-level is 'loud'", "warning"}},
        BadSetting{"RequestTooSmallForIds",
                   {"--max-request-bytes=1KiB"},
                   {},
                   {"--max-request-bytes is 1024", "--max-ids 65536"}},
        BadSetting{"AnswersDoNotFit",
                   {"--max-in-flight-bytes=1MiB"},
                   {},
                   {"--max-in-flight-bytes is 1048576", "--max-response-bytes 67108864"}},
        BadSetting{"OneAddressForBoth",
                   {"--grpc-address=127.0.0.1:9464"},
                   {},
                   {"--grpc-address and --admin-address are both 127.0.0.1:9464"}},
        BadSetting{"Environment", {}, {"EMBEDDING_MAX_IDS=many"}, {"EMBEDDING_MAX_IDS is 'many'", "from 1"}},
        BadSetting{"EnvironmentTable", {}, {"EMBEDDING_TABLE=a=x.npy;b="}, {"EMBEDDING_TABLE is 'b='"}},
        BadSetting{"NoSuchConfigFile", {"--config=/nowhere/x.toml"}, {}, {"--config", "/nowhere/x.toml"}},
        BadSetting{"NoSuchConfigFileByVariable", {}, {"EMBEDDING_CONFIG=/nowhere/x.toml"}, {"/nowhere/x.toml"}},
        BadSetting{"ProbeTimeout", {"health", "--timeout=soon"}, {}, {"--timeout is 'soon'"}}),
    [](const auto& param) { return param.param.name; });

TEST(SettingsTest, FileErrorsNameFileAndLine) {
  const ScratchFolder folder;
  const std::string file = folder.TextFile("server.toml", "# limits\nmax-ids = 10\nmax-qeries = 5\n");
  RunResult result = RunServer({"--config", file});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr(file + ":3: the key 'max-qeries' is not known; did you mean max-queries?"));

  folder.TextFile("server.toml", "max-ids = \"-1\"\n");
  result = RunServer({"--config", file});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr(file + ":1: max-ids is '-1': want a whole number"));
}

// Each combination of the three places where a value may be given.
class PrecedenceTest : public ::testing::TestWithParam<int> {};

TEST_P(PrecedenceTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const bool in_flag = (GetParam() & 4) != 0, in_environment = (GetParam() & 2) != 0, in_file = (GetParam() & 1) != 0;
  const ScratchFolder folder;
  const std::string file = folder.TextFile("server.toml", in_file ? "\n\nmax-k = 30\n" : "max-ids = 7 # another\n");
  std::vector<std::string> arguments = {"config", "--config", file};
  if (in_flag) arguments.push_back("--max-k=10");
  std::vector<std::string> environment;
  if (in_environment) environment.push_back("EMBEDDING_MAX_K=20");

  const std::string value = in_flag ? "10" : in_environment ? "20" : in_file ? "30" : "10000";
  const std::string origin = in_flag ? "flag" : in_environment ? "env" : in_file ? file + ":3" : "default";
  RunResult result = RunServer(arguments, environment);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::ContainsRegex(absl::StrCat("\nmax-k = ", value, " +# ", origin, "\n")));

  arguments.push_back("--json");
  result = RunServer(arguments, environment);
  EXPECT_THAT(result.output,
              HasSubstr(absl::StrCat("\"max-k\": {\"value\": ", value, ", \"origin\": \"", origin, "\"}")));
}

INSTANTIATE_TEST_SUITE_P(AllEight, PrecedenceTest, ::testing::Range(0, 8));

TEST(SettingsTest, PrintedConfigurationIsAConfigurationFile) {
  const std::vector<std::string> arguments = {"config",
                                              "--table=a=x y.npy",
                                              "--table",
                                              "b=\"q\".npy",
                                              "--drain-delay=90s",
                                              "--max-request-bytes=2097152",
                                              "--reflection=false"};
  const RunResult printed = RunServer(arguments);
  ASSERT_EQ(printed.exit_code, 0) << printed.errors;
  EXPECT_THAT(printed.output, HasSubstr("max-request-bytes = \"2MiB\""));
  const ScratchFolder folder;
  const RunResult read = RunServer({"config", "--config", folder.TextFile("printed.toml", printed.output)});
  ASSERT_EQ(read.exit_code, 0) << read.errors;
  const std::vector<std::string> want = absl::StrSplit(printed.output, '\n'), got = absl::StrSplit(read.output, '\n');
  ASSERT_EQ(got.size(), want.size());
  const auto without_origin = [](const std::string& line) { return line.substr(0, line.find("  #")); };
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(without_origin(got[i]), without_origin(want[i]));
}

TEST(SettingsTest, UnknownVariablesAreWarnedAboutWithTheNearestName) {
  const RunResult result =
      RunServer({"config"}, {"EMBEDDING_GRPC_ADRESS=0.0.0.0:1", "EMBEDDING_COLOUR_OF_THE_SKY=blue", "OTHER=1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.errors, HasSubstr("EMBEDDING_GRPC_ADRESS is not known and changes nothing; did you mean "
                                       "EMBEDDING_GRPC_ADDRESS?\n"));
  EXPECT_THAT(result.errors, HasSubstr("EMBEDDING_COLOUR_OF_THE_SKY is not known and changes nothing\n"));
  EXPECT_THAT(result.errors, ::testing::Not(HasSubstr("OTHER")));
}

TEST(SettingsTest, EnvironmentSeparatesTablesBySemicolons) {
  const RunResult result = RunServer({"config"}, {"EMBEDDING_TABLE=a=x.npy;b=y.npy,metric=dot;"});
  EXPECT_THAT(result.output, HasSubstr("table = [\"a=x.npy\", \"b=y.npy,metric=dot\"]"));
}

TEST(SettingsTest, HelpGoesToStdoutWithVariableAndDefaultOfEachFlag) {
  for (const char* flag : {"--help", "-h"}) {
    const RunResult result = RunServer({flag});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.errors, IsEmpty());
    EXPECT_THAT(result.output, HasSubstr("[env: EMBEDDING_GRPC_ADDRESS] [default: 127.0.0.1:50051]"));
    EXPECT_THAT(result.output, HasSubstr("[env: EMBEDDING_MAX_DEADLINE] [default: 30s]"));
  }
  EXPECT_THAT(RunServer({"health", "--help"}).output, HasSubstr("--service"));
}

TEST(SettingsTest, VersionTellsBuildAndSimdTarget) {
  const RunResult result = RunServer({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output,
              ::testing::MatchesRegex("embedding-server [0-9.]+ \\([0-9a-z]+\\) [a-z]+ [0-9.]+ simd=.+\n"));
}

TEST(AddressTest, SecondServerOnTheSamePortEndsWithTwoAndLeavesTheFirst) {
  ChildServer first({"--table", SampleTable()});
  ASSERT_NE(first.AwaitLine(" ready "), "");
  const std::string address = first.grpc_address();
  RunResult second = RunServer({"--table", SampleTable(), "--grpc-address", address, "--admin-address", "127.0.0.1:0"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.errors,
              HasSubstr(absl::StrCat("cannot listen on ", address, " (--grpc-address): address already in use")));

  const std::string admin = first.admin_url().substr(7, first.admin_url().size() - 8);
  second = RunServer({"--table", SampleTable(), "--grpc-address", "127.0.0.1:0", "--admin-address", admin});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.errors, AllOf(HasSubstr(admin), HasSubstr("--admin-address"), HasSubstr("already in use")));

  EXPECT_EQ(RunServer({"health", "--address", address}).exit_code, 0);
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
}

TEST(AddressTest, UnknownHostIsNamed) {
  const RunResult result = RunServer(
      {"--table", SampleTable(), "--grpc-address", "no-such-host.invalid:0", "--admin-address", "127.0.0.1:0"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("cannot listen on no-such-host.invalid:0 (--grpc-address): the host"));
}

TEST(AddressTest, NamesAreResolvedAndPortZeroIsLogged) {
  ChildServer server({"--table", SampleTable(), "--grpc-address", "localhost:0"});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  for (const absl::string_view address : absl::StrSplit(server.grpc_address(), ',')) {
    EXPECT_THAT(std::string(address), ::testing::Not(EndsWith(":0")));
    EXPECT_EQ(RunServer({"health", "--address", std::string(address)}).exit_code, 0) << address;
  }
}

void BindStaleSocket(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(fd);  // the file stays, as after a crash
}

TEST(AddressTest, UnixSocketReplacesAStaleOneAndIsRemovedAtTheEnd) {
  const ScratchFolder folder;
  const std::string path = folder.Path("grpc.sock");
  BindStaleSocket(path);
  ChildServer server({"--table", SampleTable(), "--grpc-address", "unix:" + path});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  EXPECT_EQ(RunServer({"health", "--address", "unix:" + path}).exit_code, 0);

  const RunResult second =
      RunServer({"--table", SampleTable(), "--grpc-address", "unix:" + path, "--admin-address", "127.0.0.1:0"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.errors,
              HasSubstr(absl::StrCat("cannot listen on unix:", path, " (--grpc-address): address already in use")));
  EXPECT_EQ(RunServer({"health", "--address", "unix:" + path}).exit_code, 0);

  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(AddressTest, AFileThatIsNoSocketIsLeftAlone) {
  const ScratchFolder folder;
  const std::string path = folder.TextFile("data", "precious");
  const RunResult result =
      RunServer({"--table", SampleTable(), "--grpc-address", "unix:" + path, "--admin-address", "127.0.0.1:0"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("no socket"));
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
}

TEST(ProbeTest, NothingListensIs78) {
  const ScratchFolder folder;
  const RunResult result = RunServer({"health", "--address", "unix:" + folder.Path("nobody")});
  EXPECT_EQ(result.exit_code, 78);
  EXPECT_THAT(result.errors, HasSubstr("gRPC status 14"));
}

TEST(ProbeTest, AsksWhereTheConfigurationListens) {
  const ScratchFolder folder;
  const std::string address = "unix:" + folder.Path("grpc.sock");
  ChildServer server({"--table", SampleTable(), "--grpc-address", address});
  ASSERT_NE(server.AwaitLine(" ready "), "");
  EXPECT_EQ(RunServer({"health"}, {"EMBEDDING_GRPC_ADDRESS=" + address}).exit_code, 0);
  EXPECT_EQ(RunServer({"health", "--service", "table/words", "--grpc-address", address}).exit_code, 0);
  EXPECT_EQ(RunServer({"health", "--service", "nobody", "--grpc-address", address}).exit_code, 69);
}

}  // namespace
}  // namespace embedding::testing
