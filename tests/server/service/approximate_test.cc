// NearestNeighbour by SEARCH_MODE_APPROXIMATE as a caller sees it.
#include <random>
#include <set>

#include "server/search/hnsw_index.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

constexpr int64_t kRows = 4000;
constexpr int64_t kDim = 8;

std::vector<float> NormalValues(int64_t num_rows) {
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (int64_t i = 0; i < num_rows * kDim; ++i) values.push_back(normal(random));
  return values;
}

class ApproximateTest : public ::testing::Test {
 protected:
  // Version 2 of "rows" has a graph, version 1 has none.
  ApproximateTest() {
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->name = "rows";
    snapshot->version = 2;
    snapshot->table = FloatTable("rows", kDim, NormalValues(kRows));
    absl::StatusOr<HnswParts> parts = BuildHnswParts(*snapshot->table, {Metric::kCosine, 8, 60}, services_.pool);
    EXPECT_TRUE(parts.ok()) << parts.status();
    snapshot->index =
        MakeHnswIndex(*snapshot->table, BuildExactIndex(*snapshot->table, services_.pool), *std::move(parts));
    services_.registry.Publish(std::move(snapshot));
    for (int64_t id = 0; id < 20; ++id) {
      request_.mutable_targets()->mutable_rows()->mutable_ids()->add_values(id * 7);
    }
    request_.set_k(10);
    request_.set_mode(v1::SEARCH_MODE_APPROXIMATE);
  }

  absl::Status Search() { return services_.Call("NearestNeighbour", request_, &response_); }

  Services services_{TablesOf(FloatTable("rows", kDim, NormalValues(kRows)))};
  v1::NearestNeighbourRequest request_;
  v1::NearestNeighbourResponse response_;
};

TEST_F(ApproximateTest, FindsMostOfTheClosestRowsWithTheirScores) {
  request_.set_effort(50);
  ASSERT_EQ(Search(), absl::OkStatus());
  EXPECT_FALSE(response_.exact());
  const v1::NearestNeighbourResponse found = response_;
  request_.set_mode(v1::SEARCH_MODE_EXACT);
  request_.set_effort(0);
  ASSERT_EQ(Search(), absl::OkStatus());
  EXPECT_TRUE(response_.exact());
  int hits = 0;
  for (int q = 0; q < 20; ++q) {
    std::map<int64_t, float> closest;
    for (int i = 0; i < 10; ++i) closest[response_.results(q).ids(i)] = response_.results(q).scores(i);
    ASSERT_EQ(found.results(q).ids_size(), 10);
    for (int i = 0; i < 10; ++i) {
      const auto it = closest.find(found.results(q).ids(i));
      if (it == closest.end()) continue;
      ++hits;
      EXPECT_EQ(found.results(q).scores(i), it->second);
    }
  }
  EXPECT_GE(hits, 180);
}

TEST_F(ApproximateTest, EffortOfZeroIsTheServersChoiceAndOfMoreThanTheTableIsExact) {
  ASSERT_EQ(Search(), absl::OkStatus());
  EXPECT_FALSE(response_.exact());
  request_.set_effort(65536);
  ASSERT_EQ(Search(), absl::OkStatus());
  EXPECT_TRUE(response_.exact());
}

TEST_F(ApproximateTest, TableWithoutIndexIsRefused) {
  request_.mutable_table()->set_version(1);
  const absl::Status status = Search();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(status).reason, "NO_INDEX");
  EXPECT_THAT(std::string(status.message()), HasSubstr("table \"rows\" has no index"));
}

TEST_F(ApproximateTest, AnotherMetricThanTheIndexesIsRefused) {
  request_.set_metric(v1::METRIC_DOT);
  const absl::Status status = Search();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(status).reason, "NO_INDEX");
  EXPECT_THAT(std::string(status.message()), HasSubstr("is for cosine, not dot"));
  request_.set_mode(v1::SEARCH_MODE_EXACT);
  EXPECT_EQ(Search(), absl::OkStatus());
}

TEST_F(ApproximateTest, EffortAndModeAreChecked) {
  const struct {
    int mode;
    int32_t effort;
    const char* message;
  } kCases[] = {
      {v1::SEARCH_MODE_APPROXIMATE, -1, "effort=-1, must be in 0..65536"},
      {v1::SEARCH_MODE_APPROXIMATE, 65537, "effort=65537, must be in 0..65536"},
      {v1::SEARCH_MODE_EXACT, 1, "effort=1, must be 0 unless mode is SEARCH_MODE_APPROXIMATE"},
      {v1::SEARCH_MODE_UNSPECIFIED, 1, "effort=1, must be 0 unless mode is SEARCH_MODE_APPROXIMATE"},
      {3, 0, "mode=3, allowed: SEARCH_MODE_UNSPECIFIED (0)"},
  };
  for (const auto& c : kCases) {
    request_.set_mode(static_cast<v1::SearchMode>(c.mode));
    request_.set_effort(c.effort);
    const absl::Status status = Search();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST_F(ApproximateTest, TableInfoTellsTheIndex) {
  v1::GetTableRequest request;
  v1::GetTableResponse response;
  ASSERT_EQ(services_.Call("GetTable", request, &response), absl::OkStatus());
  EXPECT_EQ(response.table().index(), "hnsw");
  EXPECT_EQ(response.table().hnsw().m(), 8);
  EXPECT_EQ(response.table().hnsw().ef_construction(), 60);
  EXPECT_GE(response.table().hnsw().bytes(), kRows * 17 * 4);
  EXPECT_GT(response.table().hnsw().seconds(), 0);
  EXPECT_FALSE(response.table().hnsw().from_file());
  request.mutable_table()->set_version(1);
  ASSERT_EQ(services_.Call("GetTable", request, &response), absl::OkStatus());
  EXPECT_EQ(response.table().index(), "");
  EXPECT_FALSE(response.table().has_hnsw());
}

}  // namespace
}  // namespace embedding::testing
