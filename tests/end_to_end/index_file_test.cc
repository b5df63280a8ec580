// The file beside a table that keeps its index, from one start of the server to the next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/embedding_client.h"
#include "tests/end_to_end/child_server.h"
#include "tests/testing/table_files.h"

namespace embedding::testing {
namespace {

constexpr int64_t kRows = 3000;
constexpr int64_t kDim = 16;
constexpr char kRefused[] = "the file of the index does not serve, it is built anew";

class IndexFileTest : public ::testing::Test {
 protected:
  IndexFileTest() { WriteTable(1); }

  void WriteTable(uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(kRows * kDim));
    for (float& value : values) value = normal(random);
    WriteFbin(folder_.Path("t.fbin"), values, kDim);
  }

  std::string file() const { return folder_.Path("t.fbin.items.hnsw"); }

  struct Start {
    client::HnswInfo index;
    std::vector<int64_t> neighbours;  // of row 7, approximately
    bool refused_file = false;
    bool kept_file = true;
  };

  // A server's life: it loads the table, answers one approximate search and ends.
  Start RunOnce(const std::string& options = "") const {
    Start start;
    ChildServer server({"--table", "items=" + folder_.Path("t.fbin") + ",index=hnsw" + options});
    EXPECT_NE(server.AwaitLine(" ready "), "");
    ClientOptions client_options;
    client_options.address = server.grpc_address();
    const std::unique_ptr<EmbeddingClient> client = *EmbeddingClient::Create(client_options);
    const absl::StatusOr<client::TableInfo> table = client->GetTable({});
    EXPECT_TRUE(table.ok() && table->hnsw.has_value()) << table.status();
    if (table.ok() && table->hnsw.has_value()) start.index = *table->hnsw;
    client::NearestNeighbourRequest request;
    request.targets = client::Ids{{7}, {}};
    request.mode = client::SearchMode::kApproximate;
    request.effort = 50;
    const absl::StatusOr<client::NearestNeighbourResult> result = client->NearestNeighbour(request);
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) start.neighbours = result->results[0].ids;
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
    for (const std::string& line : server.Lines()) {
      if (line.find(kRefused) != std::string::npos) start.refused_file = true;
      if (line.find("the index is not kept for the next start") != std::string::npos) start.kept_file = false;
    }
    return start;
  }

  ScratchFolder folder_;
};

TEST_F(IndexFileTest, TheNextStartReadsWhatTheFirstBuilt) {
  const Start first = RunOnce();
  EXPECT_FALSE(first.index.from_file);
  EXPECT_TRUE(std::filesystem::exists(file()));
  const Start second = RunOnce();
  EXPECT_TRUE(second.index.from_file);
  EXPECT_FALSE(first.refused_file || second.refused_file);
  EXPECT_EQ(second.index.bytes, first.index.bytes);
  EXPECT_EQ(second.neighbours.size(), 10u);
  EXPECT_EQ(second.neighbours, first.neighbours);
}

TEST_F(IndexFileTest, AFileOfOtherRowsIsBuiltAnewAndReplaced) {
  RunOnce();
  WriteTable(2);
  const Start changed = RunOnce();
  EXPECT_TRUE(changed.refused_file);
  EXPECT_FALSE(changed.index.from_file);
  EXPECT_TRUE(RunOnce().index.from_file);
}

TEST_F(IndexFileTest, AFileOfOtherParametersIsBuiltAnewAndReplaced) {
  RunOnce();
  const Start changed = RunOnce(",hnsw-m=8");
  EXPECT_TRUE(changed.refused_file);
  EXPECT_EQ(changed.index.m, 8);
  EXPECT_FALSE(changed.index.from_file);
  EXPECT_TRUE(RunOnce(",hnsw-m=8").index.from_file);
}

TEST_F(IndexFileTest, ABrokenFileIsBuiltAnewAndReplaced) {
  const Start first = RunOnce();
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) / 2);
  const Start broken = RunOnce();
  EXPECT_TRUE(broken.refused_file);
  EXPECT_FALSE(broken.index.from_file);
  EXPECT_EQ(broken.neighbours.size(), first.neighbours.size());
  EXPECT_TRUE(RunOnce().index.from_file);
}

TEST_F(IndexFileTest, WhereNoFileCanBeWrittenTheTableServesAllTheSame) {
  std::filesystem::create_directory(file());
  const Start start = RunOnce();
  EXPECT_FALSE(start.kept_file);
  EXPECT_FALSE(start.index.from_file);
  EXPECT_EQ(start.neighbours.size(), 10u);
  EXPECT_TRUE(std::filesystem::is_directory(file()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::filesystem::path(file()).parent_path()),
                          std::filesystem::directory_iterator()),
            2);  // the table and the folder: nothing is left behind
}

}  // namespace
}  // namespace embedding::testing
