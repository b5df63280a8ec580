// Tables loaded, swapped and dropped over the wire, and what operators see of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/embedding_client.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "proto/status_codec.h"
#include "tests/end_to_end/child_server.h"
#include "tests/testing/table_files.h"

namespace embedding::testing {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::Not;

// 4 rows of width 3, every element `value`; a new file under the name.
void WriteTable(const std::string& path, float value) {
  WriteFbin(path + ".tmp", std::vector<float>(12, value), 3);
  std::filesystem::rename(path + ".tmp", path);
}

// A table whose rows are zeros: raw files may have holes, so it costs no disk.
std::string ZeroOptions(int64_t dim) { return absl::StrCat(",format=raw,dtype=F32,dim=", dim); }

class ReloadTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> arguments) {
    server_ = std::make_unique<ChildServer>(std::move(arguments));
    ASSERT_NE(server_->AwaitLine(" ready "), "");
    ClientOptions options;
    options.address = server_->grpc_address();
    client_ = *EmbeddingClient::Create(options);
  }
  void StartWithRoot(std::vector<std::string> more = {}) {
    std::filesystem::create_directories(folder_.Path("root"));
    WriteTable(folder_.Path("words.fbin"), 1);
    more.insert(more.end(), {"--table", "words=" + folder_.Path("words.fbin"), "--table-root", folder_.Path("root")});
    Start(std::move(more));
  }

  float Value(const std::string& table = "") {
    client::LookupRequest request;
    request.table.name = table;
    request.rows = client::Ids{{0}, {}};
    const absl::StatusOr<client::LookupResult> rows = client_->Lookup(request);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? rows->embeddings.ToFloats()[0] : -1;
  }

  // SERVING, NOT_SERVING, or "unknown".
  std::string Health(const std::string& name) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    const auto channel = grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials());
    const grpc::Status status = grpc::health::v1::Health::NewStub(channel)->Check(&context, request, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status()) : "unknown";
  }

  ScratchFolder folder_;
  std::unique_ptr<ChildServer> server_;
  std::unique_ptr<EmbeddingClient> client_;
};

TEST_F(ReloadTest, TablesComeAndGoWithTheirHealthAndMetrics) {
  StartWithRoot();
  WriteTable(folder_.Path("root/items.fbin"), 7);
  const absl::StatusOr<client::TableInfo> loaded =
      client_->LoadTable({.name = "items", .path = "items.fbin", .options = {}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->serving_version, 1u);
  EXPECT_EQ(Value("items"), 7);
  EXPECT_EQ(Health("table/items"), "SERVING");
  EXPECT_EQ(server_->MetricValue("embedding_table_rows{table=\"items\"}"), 4);
  EXPECT_EQ(client_->ListTables()->size(), 2u);
  ASSERT_TRUE(client_->UnloadTable("items").ok());
  EXPECT_EQ(Health("table/items"), "unknown");
  EXPECT_EQ(server_->MetricValue("embedding_table_rows{table=\"items\"}"), -1);
  EXPECT_EQ(client_->ListTables()->size(), 1u);
  EXPECT_NE(server_->AwaitLine("table unloaded"), "");
}

TEST_F(ReloadTest, ATableGoesOnServingWhileItsReloadsFail) {
  StartWithRoot();
  WriteFile(folder_.Path("root/bad.fbin"), "x");
  const absl::Status status = client_->LoadTable({.name = "words", .path = "bad.fbin", .options = {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(status).reason, "BAD_FILE");
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("bad.fbin: "));
  EXPECT_THAT(server_->AwaitLine("load failed"), HasSubstr(folder_.Path("root/bad.fbin")));
  EXPECT_EQ(Value(), 1);
  EXPECT_EQ(Health(""), "SERVING");
  EXPECT_EQ(Health("table/words"), "SERVING");
  EXPECT_EQ(server_->MetricValue("embedding_table_reloads_total{table=\"words\",result=\"failed\"}"), 1);
  EXPECT_EQ(server_->MetricValue("embedding_table_last_reload_successful{table=\"words\"}"), 0);
  const client::TableInfo info = *client_->GetTable({});
  ASSERT_EQ(info.versions.size(), 2u);
  EXPECT_EQ(info.versions[1].state, client::TableState::kFailed);
  EXPECT_THAT(info.versions[1].reason, ::testing::StartsWith("bad.fbin: "));
}

TEST_F(ReloadTest, OfTenReloadsAtOnceEachIsServedOrToldThatOneRuns) {
  StartWithRoot();
  WriteTable(folder_.Path("root/words.fbin"), 2);
  std::atomic<int> served{0}, refused{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 10; ++i) {
    callers.emplace_back([&] {
      const absl::Status status = client_->LoadTable({.name = "words", .path = "words.fbin", .options = {}}).status();
      if (status.ok()) ++served;
      if (DetailsOf(status).reason == "RELOAD_IN_PROGRESS") ++refused;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GE(served, 1);
  EXPECT_EQ(served + refused, 10);
  EXPECT_EQ(client_->GetTable({})->serving_version, static_cast<uint64_t>(1 + served));
  EXPECT_EQ(Value(), 2);
}

TEST_F(ReloadTest, WithoutATableRootNobodyChangesWhatIsServed) {
  WriteTable(folder_.Path("words.fbin"), 1);
  Start({"--table", "words=" + folder_.Path("words.fbin")});
  EXPECT_EQ(client_->LoadTable({.name = "words", .path = "", .options = {}}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(client_->UnloadTable("words").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(client_->SetServingVersion("words", 1).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Value(), 1);
}

TEST_F(ReloadTest, AServerWithATableRootMayStartEmpty) {
  std::filesystem::create_directories(folder_.Path("root"));
  Start({"--table-root", folder_.Path("root")});
  EXPECT_EQ(Health(""), "SERVING");
  EXPECT_EQ(client_->ListTables()->size(), 0u);
  EXPECT_EQ(client_->GetTable({}).status().message(), "no table is served");
  WriteTable(folder_.Path("root/t.fbin"), 3);
  ASSERT_TRUE(client_->LoadTable({.name = "t", .path = "t.fbin", .options = {}}).ok());
  EXPECT_EQ(Value(), 3);
}

// 768 MiB, with a bound of 1 ms for calls.
TEST_F(ReloadTest, NoDeadlineOfTheServerEndsALoad) {
  StartWithRoot({"--max-deadline=1ms"});
  folder_.SparseFile("root/large", (int64_t{1} << 20) * 192 * 4);
  const absl::StatusOr<client::TableInfo> table = client_->LoadTable(
      {.name = "large", .path = "large", .options = {{"format", "raw"}, {"dtype", "F32"}, {"dim", "192"}}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_GT(table->load_seconds, 0.001);
}

TEST_F(ReloadTest, ALoadGoesOnWhenItsCallerGivesUp) {
  StartWithRoot();
  folder_.SparseFile("root/large", (int64_t{1} << 20) * 192 * 4);
  const absl::Status status =
      client_
          ->LoadTable(
              {.name = "large", .path = "large", .options = {{"format", "raw"}, {"dtype", "F32"}, {"dim", "192"}}},
              {.deadline = std::chrono::milliseconds(60)})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(server_->AwaitLine("table loaded table=large"), "");
  EXPECT_EQ(Value("large"), 0);
}

TEST_F(ReloadTest, TheServerEndsInTimeWhileItLoads) {
  StartWithRoot();
  folder_.SparseFile("root/large", (int64_t{1} << 20) * 512 * 4);  // 2 GiB
  absl::Status status;
  std::atomic<bool> ended{false};
  std::thread caller([&] {
    status =
        client_
            ->LoadTable(
                {.name = "large", .path = "large", .options = {{"format", "raw"}, {"dtype", "F32"}, {"dim", "512"}}})
            .status();
    ended = true;
  });
  while (!ended && server_->MetricValue("embedding_tables_memory_bytes") < (int64_t{1} << 31)) {
  }
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
  caller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(server_->Lines().back(), HasSubstr(" drained "));
  EXPECT_THAT(server_->Lines().back(), HasSubstr("cut=0"));
}

// Before there is a table, nobody waits for the rest of it.
TEST_F(ReloadTest, TheServerEndsInTimeWhileItLoadsItsFirstTables) {
  ChildServer server({"--table", "large=" + folder_.SparseFile("large", int64_t{1} << 31) + ZeroOptions(512)});
  ASSERT_NE(server.AwaitLine(" listening "), "");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  for (const std::string& line : server.Lines()) EXPECT_THAT(line, Not(HasSubstr("table loaded")));
}

TEST_F(ReloadTest, HangupReloadsEveryTableFromItsOwnPath) {
  for (const char* name : {"a.fbin", "b.fbin"}) WriteTable(folder_.Path(name), 1);
  Start({"--table", "a=" + folder_.Path("a.fbin"), "--table", "b=" + folder_.Path("b.fbin")});
  WriteFile(folder_.Path("a.fbin"), "no table");
  WriteTable(folder_.Path("b.fbin"), 2);
  server_->Signal(SIGHUP);
  ASSERT_NE(server_->AwaitLine("table loaded table=b version=2"), "");
  EXPECT_EQ(Value("b"), 2);
  EXPECT_NE(server_->AwaitLine("load failed table=a version=2"), "");
  EXPECT_EQ(Value("a"), 1);
  EXPECT_EQ(Health("table/a"), "SERVING");
  EXPECT_EQ(server_->MetricValue("embedding_table_last_reload_successful{table=\"a\"}"), 0);
  EXPECT_EQ(server_->MetricValue("embedding_table_last_reload_successful{table=\"b\"}"), 1);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
}

TEST_F(ReloadTest, TablesOverTheBudgetAreRefusedAtTheStart) {
  const std::string table = "zeros=" + folder_.SparseFile("zeros", int64_t{64} << 20) + ZeroOptions(64);
  const RunResult run = RunServer(
      {"--table", table, "--max-table-bytes=63MiB", "--grpc-address=127.0.0.1:0", "--admin-address=127.0.0.1:0"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.errors,
              HasSubstr("needs 67108864 bytes of memory beside the 0 bytes of tables in memory, allowed are "
                        "66060288 together: raise --max-table-bytes"));
  Start({"--table", table, "--max-table-bytes=64MiB"});
  EXPECT_EQ(server_->MetricValue("embedding_tables_memory_limit_bytes"), int64_t{64} << 20);
}

TEST_F(ReloadTest, WithoutABoundTheMachinesMemoryIsOne) {
  StartWithRoot();
  EXPECT_GT(server_->MetricValue("embedding_tables_memory_limit_bytes"), 1 << 20);
  folder_.SparseFile("root/endless", int64_t{1} << 43);
  const absl::Status status =
      client_
          ->LoadTable(
              {.name = "words",
               .path = "endless",
               .options = {{"format", "raw"}, {"dtype", "F32"}, {"dim", "65536"}, {"allow-dim-change", "true"}}})
          .status();
  EXPECT_EQ(DetailsOf(status).reason, "OVER_BUDGET") << status;
  EXPECT_EQ(Value(), 1);
}

TEST_F(ReloadTest, ATableFolderThatIsNotThereIsAUsageError) {
  const RunResult run = RunServer({"--table-root", folder_.Path("none")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("--table-root is '" + folder_.Path("none") + "': want a folder that is there"));
}

}  // namespace
}  // namespace embedding::testing
