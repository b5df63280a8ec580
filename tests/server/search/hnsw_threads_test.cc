// Graphs that several threads build and search at once; small ones, as ThreadSanitizer looks on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "server/search/hnsw_index.h"
#include "tests/server/search/search_testing.h"

namespace embedding {
namespace {

using testing::Search;
using testing::TableOf;

constexpr int64_t kRows = 2000;
constexpr int64_t kDim = 24;

std::vector<float> NormalValues(int64_t num_rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(num_rows * kDim));
  for (float& x : values) x = normal(random);
  return values;
}

// Which threads insert rows, and in which order they come by, changes no link.
TEST(HnswThreadsTest, AnyNumberOfThemBuildsTheSameGraph) {
  const auto table = TableOf(Dtype::kF32, kDim, NormalValues(kRows, 1));
  for (const Metric metric : {Metric::kCosine, Metric::kEuclidean}) {
    std::vector<std::vector<uint32_t>> links;
    for (const int threads : {1, 2, 5}) {
      WorkerPool pool(threads);
      const auto parts = BuildHnswParts(*table, {metric, 8, 40}, pool);
      ASSERT_TRUE(parts.ok());
      const HnswGraph& graph = parts->graph;
      std::vector<uint32_t>& all = links.emplace_back(
          graph.lowest(), graph.lowest() + static_cast<size_t>(graph.num_rows()) * graph.lowest_stride());
      ASSERT_THAT(graph.upper(), ::testing::Not(::testing::IsEmpty()));
      for (const HnswGraph::Level& level : graph.upper()) {
        all.insert(all.end(), level.rows.begin(), level.rows.end());
        all.insert(all.end(), level.links.begin(), level.links.end());
      }
    }
    EXPECT_EQ(links[0], links[1]);
    EXPECT_EQ(links[0], links[2]);
  }
}

TEST(HnswThreadsTest, SearchesAtTheSameTimeAnswerAsAlone) {
  const auto table = TableOf(Dtype::kF32, kDim, NormalValues(kRows, 1));
  WorkerPool pool(2);
  absl::StatusOr<HnswParts> parts = BuildHnswParts(*table, {Metric::kCosine, 8, 40}, pool);
  ASSERT_TRUE(parts.ok());
  const auto index = MakeHnswIndex(*table, BuildExactIndex(*table, pool), *std::move(parts));
  const std::vector<float> vectors = NormalValues(20, 2);
  NeighbourQuery query{Metric::kCosine, 10, {}};
  for (size_t at = 0; at < vectors.size(); at += kDim) query.queries.push_back({&vectors[at], ElementType::kF32});
  query.effort = 50;
  const NeighbourResult alone = Search(*index, query, pool);
  EXPECT_FALSE(alone.exact);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) EXPECT_EQ(Search(*index, query, pool).neighbours, alone.neighbours);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace embedding
