// embedding-cli reload, versions, rollback and unload against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/server.h"
#include "tests/end_to_end/cli_run.h"
#include "tests/testing/table_files.h"

namespace embedding {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CliVersionsTest : public ::testing::Test {
 protected:
  CliVersionsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cli-versions-XXXXXX").string();
    folder_ = mkdtemp(pattern.data()) == nullptr ? "" : pattern;
    Write("t.fbin", 1);
    ServerOptions options;
    options.grpc_address = "127.0.0.1:0";
    options.admin_address = "127.0.0.1:0";
    options.log_level = "critical";
    options.tables = {*ParseTableOptions("t=" + folder_ + "/t.fbin")};
    options.table_root = folder_;
    server_ = *Server::Start(options);
    EXPECT_TRUE(server_->Load().ok());
  }
  ~CliVersionsTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Write(const std::string& name, float value) const {
    testing::WriteFbin(folder_ + "/new.tmp", std::vector<float>(6, value), 2);
    std::filesystem::rename(folder_ + "/new.tmp", folder_ + "/" + name);
  }

  Ended Run(std::vector<std::string> arguments) const {
    return testing::RunCli(server_->grpc_address(), std::move(arguments));
  }
  std::string Versions() { return Run({"versions", "--output", "csv"}).out; }

  std::string folder_;
  std::unique_ptr<Server> server_;
};

TEST_F(CliVersionsTest, ReloadServesTheFileAgainAndRollbackTheVersionBefore) {
  EXPECT_EQ(Run({"reload", "t"}).out,
            "TABLE  VERSION  STATE      SERVES  REASON\n"
            "t            1  available  no\n"
            "t            2  available  yes\n");
  EXPECT_EQ(Run({"rollback", "t"}).code, 0);
  EXPECT_EQ(Versions(), "table,version,state,serves,reason\nt,1,available,yes,\nt,2,available,no,\n");
  EXPECT_EQ(Run({"rollback", "t", "--version", "2"}).code, 0);
  EXPECT_EQ(Versions(), "table,version,state,serves,reason\nt,1,available,no,\nt,2,available,yes,\n");
  EXPECT_EQ(Run({"unload", "t", "--version", "1"}).out,
            "TABLE  VERSION  STATE      SERVES  REASON\n"
            "t            2  available  yes\n");
  const Ended ended = Run({"rollback", "t"});
  EXPECT_EQ(ended.code, 64 + 5);
  EXPECT_THAT(ended.err, HasSubstr("table \"t\" serves version 2 and has none below it in memory"));
}

TEST_F(CliVersionsTest, OtherPathsAndOptionsComeByFlags) {
  Write("items.fbin", 5);
  const Ended ended = Run({"reload", "items", "--path", "items.fbin", "--option", "metric=dot", "--output", "json"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out,
              StartsWith("{\"table\":{\"name\":\"items\",\"servingVersion\":\"1\",\"versions\":[{\"version\":"
                         "\"1\",\"state\":\"TABLE_STATE_AVAILABLE\""));
  EXPECT_THAT(ended.out, HasSubstr("\"metric\":\"METRIC_DOT\""));
  EXPECT_EQ(Run({"unload", "items"}).code, 0);
  EXPECT_EQ(Run({"versions", "items"}).code, 64 + 5);
}

TEST_F(CliVersionsTest, ARefusedLoadIsShownUntilOneGoesWell) {
  testing::WriteFile(folder_ + "/bad.fbin", "x");
  const Ended ended = Run({"reload", "t", "--path", "bad.fbin"});
  EXPECT_EQ(ended.code, 64 + 9);
  EXPECT_THAT(ended.err, HasSubstr("bad.fbin: "));
  EXPECT_THAT(Versions(), HasSubstr("t,1,available,yes,\nt,2,failed,no,"));
  EXPECT_EQ(Run({"reload", "t"}).code, 0);
  EXPECT_EQ(Versions(), "table,version,state,serves,reason\nt,1,available,no,\nt,2,available,yes,\n");
}

TEST_F(CliVersionsTest, WrongWordsAreUsageErrors) {
  for (const char* command : {"reload", "rollback", "unload"}) {
    EXPECT_EQ(Run({command}).code, 2) << command;
  }
  EXPECT_THAT(Run({"reload", "t", "--option", "metric"}).err, HasSubstr("--option: \"metric\" is not key=value"));
  EXPECT_THAT(Run({"reload", "t", "--option", "metric=dot", "--option", "metric=cosine"}).err,
              HasSubstr("--option: metric is given twice"));
  EXPECT_EQ(Run({"rollback", "t", "--version", "0"}).code, 2);
}

}  // namespace
}  // namespace embedding
