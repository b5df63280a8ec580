#include "server/search/exact_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "server/search/row_norms.h"
#include "tests/server/search/random_call.h"
#include "tests/server/search/search_testing.h"
#include "tests/testing/random_vectors.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::Bits;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::RandomRows;
using testing::ReferenceNeighbours;
using testing::ReferenceRows;
using testing::ScopedSimdTarget;
using testing::Search;
using testing::SimdTargets;
using testing::TableOf;
using testing::VectorKind;

constexpr Metric kMetrics[] = {Metric::kCosine, Metric::kDot, Metric::kEuclidean};
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitized = true;
#else
constexpr bool kThreadSanitized = false;
#endif

constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kF16,    Dtype::kBF16,  Dtype::kI8,
                             Dtype::kU8,  Dtype::kF8E4M3, Dtype::kF8E5M2};

VectorView View(const std::vector<float>& vector) { return {vector.data(), ElementType::kF32}; }

std::vector<std::pair<int64_t, float>> Pairs(const std::vector<Neighbour>& neighbours) {
  std::vector<std::pair<int64_t, float>> pairs;
  pairs.reserve(neighbours.size());
  for (const Neighbour& neighbour : neighbours) pairs.emplace_back(neighbour.id, neighbour.score);
  return pairs;
}

// robot, arm, box, tool.
const std::vector<float> kToys = {1, 0, 1, .9f, .1f, .8f, 0, 1, 0, -1, 0, .5f};

TEST(ExactIndexTest, OrdersToysByEachMetric) {
  WorkerPool pool(2);
  const auto table = TableOf(Dtype::kF32, 3, kToys);
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> robot = {1, 0, 1};
  // Dots 2, 1.7, 0, -0.5, computed by hand.
  EXPECT_THAT(Pairs(Search(*index, {Metric::kDot, 4, {View(robot)}, {}}, pool).neighbours[0]),
              ElementsAre(std::pair(int64_t{0}, 2.0f), std::pair(int64_t{1}, 1.7f), std::pair(int64_t{2}, 0.0f),
                          std::pair(int64_t{3}, -0.5f)));
  // The row that a query leaves out makes room for the next one.
  const auto cosine = Search(*index, {Metric::kCosine, 2, {View(robot)}, {{0}}}, pool).neighbours[0];
  ASSERT_EQ(cosine.size(), 2u);
  EXPECT_EQ(cosine[0].id, 1);
  EXPECT_NEAR(cosine[0].score, 0.995, 5e-4);
  EXPECT_EQ(cosine[1], (Neighbour{2, 0.0f}));
  const auto euclidean = Search(*index, {Metric::kEuclidean, 9, {View(robot)}, {}}, pool).neighbours[0];
  ASSERT_EQ(euclidean.size(), 4u);  // k beyond the table gives the table
  EXPECT_EQ(euclidean[0], (Neighbour{0, 0.0f}));
  EXPECT_EQ(euclidean[3].id, 3);
  EXPECT_FLOAT_EQ(euclidean[3].score, std::sqrt(4.25f));
}

TEST(ExactIndexTest, NoQueriesGiveNoResults) {
  WorkerPool pool(1);
  const auto table = TableOf(Dtype::kF32, 3, kToys);
  const auto index = BuildExactIndex(*table, pool);
  const NeighbourResult result = Search(*index, {Metric::kDot, 4, {}, {}}, pool);
  EXPECT_EQ(result.outcome, WorkOutcome::kComplete);
  EXPECT_THAT(result.neighbours, IsEmpty());
}

// One table per dimension around the vector widths; every target, 1 and 2 threads, k = 1, 10, 1000.
class ExactIndexDimTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(ExactIndexDimTest, EqualsReferenceToTheBitOnEveryTarget) {
  const int64_t dim = GetParam();
  const int64_t num_rows = 1500;
  WorkerPool one(1);
  WorkerPool two(2);
  for (Dtype dtype : kDtypes) {
    // ThreadSanitizer looks for races, which do not depend on the dtype, and makes this twenty times slower.
    if (kThreadSanitized && dtype != Dtype::kF32 && dtype != Dtype::kI8) continue;
    std::mt19937_64 random(static_cast<uint64_t>(dim * 10) + static_cast<uint64_t>(dtype));
    const auto table = TableOf(dtype, dim, RandomRows(VectorKind::kGaussian, num_rows, dim, random));
    const std::vector<double> rows = ReferenceRows(*table);
    // A row of the table that leaves itself out, and a raw vector, misaligned.
    std::vector<float> raw = RandomRows(VectorKind::kGaussian, 1, dim, random);
    std::vector<uint8_t> misaligned(raw.size() * sizeof(float) + 1);
    std::memcpy(misaligned.data() + 1, raw.data(), raw.size() * sizeof(float));
    const std::vector<VectorView> queries = {{table->row(7), ElementTypeOf(dtype)},
                                             {misaligned.data() + 1, ElementType::kF32}};
    for (Metric metric : kMetrics) {
      const auto want0 = ReferenceNeighbours(metric, rows, dim, queries[0], 1000, [](int64_t id) { return id != 7; });
      const auto want1 = ReferenceNeighbours(metric, rows, dim, queries[1], 1000, [](int64_t) { return true; });
      for (int64_t target : SimdTargets()) {
        const ScopedSimdTarget scoped(target);
        for (auto [pool, with_codes] : {std::pair(&one, false), {&one, true}, {&two, false}, {&two, true}}) {
          const auto index = BuildExactIndex(*table, with_codes, *pool).value();
          for (int64_t k : {1, 10, 1000}) {
            SCOPED_TRACE(std::string(with_codes ? "codes " : "") + std::string(hwy::TargetName(target)) +
                         " k=" + std::to_string(k) + " threads=" + std::to_string(pool->num_threads()) +
                         " dtype=" + std::string(DtypeName(dtype)));
            const NeighbourResult got = Search(*index, {metric, k, queries, {{7}, {}}}, *pool);
            const auto first = [k](std::vector<Neighbour> all) {
              all.resize(static_cast<size_t>(k));
              return all;
            };
            ASSERT_EQ(Bits(got.neighbours[0]), Bits(first(want0)));
            ASSERT_EQ(Bits(got.neighbours[1]), Bits(first(want1)));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, ExactIndexDimTest,
                         ::testing::Values(1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 127, 128, 129, 768),
                         [](const auto& test) { return "Dim" + std::to_string(test.param); });

// Random tables of every kind against the reference, with filters, exclusions and thresholds. EMBEDDING_SEARCH_ROUNDS
// asks for more rounds.
TEST(ExactIndexRandomTest, NeverDiffersFromTheReference) {
  const char* asked = std::getenv("EMBEDDING_SEARCH_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : kThreadSanitized ? 600 : 2000;
  const std::vector<int64_t> targets = SimdTargets();
  WorkerPool one(1);
  WorkerPool two(2);
  int64_t queries_checked = 0;
  int64_t neighbours_checked = 0;
  int64_t fallbacks = 0;
  int64_t mismatches = 0;
  for (int round = 0; round < rounds; ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    const auto pick = [&random](int64_t n) { return testing::Pick(random, n); };
    const ScopedSimdTarget scoped(targets[static_cast<size_t>(round) % targets.size()]);
    WorkerPool& pool = round % 3 == 0 ? one : two;
    const Dtype dtype = kDtypes[pick(7)];
    const auto kind = static_cast<VectorKind>(pick(static_cast<int64_t>(VectorKind::kCount)));
    const int64_t dim = 1 + pick(round % 10 == 0 ? 300 : 40);
    const int64_t num_rows = 1 + pick(round % 4 == 0 ? 4000 : 300);
    std::vector<float> values = RandomRows(kind, num_rows, dim, random);
    if (pick(8) == 0) values[static_cast<size_t>(pick(num_rows * dim))] = pick(2) == 0 ? INFINITY : NAN;
    const auto table = TableOf(dtype, dim, values);
    const std::vector<double> rows = ReferenceRows(*table);
    const testing::ReferenceScan scan({rows.begin(), rows.end()}, dim);
    const auto index = BuildExactIndex(*table, /*with_codes=*/round % 5 < 3, pool).value();
    const testing::RandomCall call(*table, scan, 1 + pick(6), random);
    const NeighbourQuery& query = call.query();
    const NeighbourResult got = Search(*index, query, pool);
    ASSERT_EQ(got.outcome, WorkOutcome::kComplete);
    ASSERT_EQ(got.neighbours.size(), query.queries.size());
    fallbacks += got.stats.fallback_queries;
    for (size_t i = 0; i < query.queries.size(); ++i) {
      ++queries_checked;
      const auto may_find = [&](int64_t id) { return call.MayFind(i, id); };
      const auto want =
          ReferenceNeighbours(query.metric, rows, dim, query.queries[i], query.k, may_find, query.threshold);
      // The faster reference, which tests/bench/exact_mismatches.cc relies on, agrees with the plain one.
      ASSERT_EQ(Bits(scan.Closest(query.metric, scan.Scores(query.metric, call.vector(i)), query.k, may_find,
                                  query.threshold)),
                Bits(want));
      neighbours_checked += static_cast<int64_t>(want.size());
      if (Bits(got.neighbours[i]) == Bits(want)) continue;
      ++mismatches;
      ADD_FAILURE() << "round " << round << " query " << i << " " << std::string(DtypeName(dtype)) << " kind "
                    << static_cast<int>(kind) << " rows " << num_rows << " dim " << dim << " " << call.Text()
                    << " target " << SimdTargetName();
      if (mismatches > 10) return;
    }
  }
  std::printf("%lld queries in %d rounds, %lld neighbours, %lld queries by the full scan, %lld mismatches\n",
              static_cast<long long>(queries_checked), rounds, static_cast<long long>(neighbours_checked),
              static_cast<long long>(fallbacks), static_cast<long long>(mismatches));
}

TEST(ExactIndexTest, EqualRowsGiveLowestIdsThroughTheFullScan) {
  WorkerPool pool(2);
  const int64_t num_rows = 60000;
  const auto table = TableOf(Dtype::kF32, 8, std::vector<float>(static_cast<size_t>(num_rows * 8), 0.3f));
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> query(8, 1.0f);
  for (Metric metric : kMetrics) {
    const NeighbourResult got = Search(*index, {metric, 3, {View(query)}, {{1}}}, pool);
    EXPECT_EQ(got.stats.fallback_queries, 1);
    ASSERT_EQ(got.neighbours[0].size(), 3u);
    EXPECT_EQ(got.neighbours[0][0].id, 0);
    EXPECT_EQ(got.neighbours[0][1].id, 2);
    EXPECT_EQ(got.neighbours[0][2].id, 3);
  }
}

TEST(ExactIndexTest, PassRescoresFewRowsOfAnOrdinaryTable) {
  WorkerPool pool(2);
  std::mt19937_64 random(1);
  const auto table = TableOf(Dtype::kF32, 64, RandomRows(VectorKind::kGaussian, 20000, 64, random));
  const auto index = BuildExactIndex(*table, pool);
  for (Metric metric : kMetrics) {
    const NeighbourResult got = Search(*index, {metric, 10, {{table->row(3), ElementType::kF32}}, {{3}}}, pool);
    EXPECT_EQ(got.stats.fallback_queries, 0);
    EXPECT_EQ(got.stats.rows_scanned, 20000);
    EXPECT_LE(got.stats.rows_rescored, 40);
  }
}

TEST(ExactIndexTest, CodesLeaveFewSurvivorsWhereColumnsDifferAndRowsShareAMean) {
  WorkerPool pool(2);
  std::mt19937_64 random(10);
  const int64_t dim = 64;
  std::vector<float> values = RandomRows(VectorKind::kGaussian, 20000, dim, random);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t column = i % static_cast<size_t>(dim);
    if (column < 3) values[i] *= 100;
    values[i] += column % 2 == 0 ? 5.0f : -5.0f;
  }
  const auto table = TableOf(Dtype::kF32, dim, values);
  const auto index = BuildExactIndex(*table, /*with_codes=*/true, pool).value();
  for (Metric metric : kMetrics) {
    const NeighbourResult got = Search(*index, {metric, 10, {{table->row(3), ElementType::kF32}}, {{3}}}, pool);
    EXPECT_EQ(got.stats.rows_scanned, 20000) << "one pass, over the codes";
    EXPECT_EQ(got.stats.fallback_queries, 0);
    EXPECT_LE(got.stats.rows_rescored, 400);
    EXPECT_THAT(got.stats.survivors, ElementsAre(got.stats.rows_rescored));
  }
}

TEST(ExactIndexTest, RowsThatCodesCannotTellApartAreScannedCanonically) {
  WorkerPool pool(2);
  const int64_t num_rows = 60000;
  const auto table = TableOf(Dtype::kF32, 8, std::vector<float>(static_cast<size_t>(num_rows * 8), 0.3f));
  const auto index = BuildExactIndex(*table, /*with_codes=*/true, pool).value();
  const std::vector<float> query(8, 1.0f);
  for (Metric metric : kMetrics) {
    const NeighbourResult got = Search(*index, {metric, 2, {View(query)}, {{0}}}, pool);
    EXPECT_EQ(got.stats.fallback_queries, 1);
    EXPECT_EQ(got.stats.rows_rescored, num_rows);
    ASSERT_EQ(got.neighbours[0].size(), 2u);
    EXPECT_EQ(got.neighbours[0][0].id, 1);
    EXPECT_EQ(got.neighbours[0][1].id, 2);
  }
}

TEST(ExactIndexTest, RowsThatThePassCannotJudgeAreStillFound) {
  WorkerPool pool(2);
  std::mt19937_64 random(2);
  std::vector<float> values = RandomRows(VectorKind::kGaussian, 5000, 16, random);
  // Row 4000 points where the query does, far too long for float32 squares.
  for (size_t j = 0; j < 16; ++j) values[size_t{4000} * 16 + j] = 1e30f;
  const auto table = TableOf(Dtype::kF32, 16, values);
  EXPECT_THAT(ComputeRowNorms(*table, pool).unjudged, ElementsAre(4000));
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> query(16, 1.0f);
  const NeighbourResult got = Search(*index, {Metric::kCosine, 1, {View(query)}, {}}, pool);
  EXPECT_EQ(got.neighbours[0][0], (Neighbour{4000, 1.0f}));
  EXPECT_EQ(got.stats.fallback_queries, 0);
}

TEST(ExactIndexTest, ZeroQueryGivesLowestIds) {
  WorkerPool pool(2);
  std::mt19937_64 random(3);
  const auto table = TableOf(Dtype::kF16, 20, RandomRows(VectorKind::kGaussian, 3000, 20, random));
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> zero(20, 0.0f);
  for (Metric metric : {Metric::kCosine, Metric::kDot}) {
    EXPECT_THAT(Pairs(Search(*index, {metric, 2, {View(zero)}, {}}, pool).neighbours[0]),
                ElementsAre(std::pair(int64_t{0}, 0.0f), std::pair(int64_t{1}, 0.0f)));
  }
}

TEST(ExactIndexTest, NonFiniteRowsAreNeverReturned) {
  WorkerPool pool(2);
  std::vector<float> values(size_t{64} * 4, 1.0f);
  values[4] = INFINITY;
  values[8] = NAN;
  const auto table = TableOf(Dtype::kF32, 4, values);
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> query(4, 1.0f);
  for (Metric metric : kMetrics) {
    for (int64_t k : {2, 64}) {
      const auto found = Search(*index, {metric, k, {View(query)}, {}}, pool).neighbours[0];
      EXPECT_EQ(found.size(), static_cast<size_t>(k == 2 ? 2 : 62));
      EXPECT_EQ(found[0].id, 0);
      EXPECT_EQ(found[1].id, 3);
    }
  }
}

TEST(ExactIndexTest, AnswersDoNotDependOnTheBatch) {
  WorkerPool pool(2);
  std::mt19937_64 random(4);
  const int64_t dim = 48;
  const auto table = TableOf(Dtype::kBF16, dim, RandomRows(VectorKind::kGaussian, 3000, dim, random));
  const auto index = BuildExactIndex(*table, pool);
  NeighbourQuery batch{Metric::kCosine, 5, {}, {}};
  for (int64_t i = 0; i < 150; ++i) {  // more than one group of queries
    batch.queries.push_back({table->row(i * 7), ElementType::kBF16});
    batch.excluded_rows.push_back({i * 7});
  }
  const NeighbourResult together = Search(*index, batch, pool);
  for (size_t i = 0; i < batch.queries.size(); ++i) {
    const NeighbourResult alone =
        Search(*index, {batch.metric, batch.k, {batch.queries[i]}, {batch.excluded_rows[i]}}, pool);
    ASSERT_EQ(Bits(together.neighbours[i]), Bits(alone.neighbours[0])) << i;
  }
}

TEST(ExactIndexTest, StopsWithinOneBlockPerLane) {
  WorkerPool pool(2);
  std::mt19937_64 random(5);
  const auto table = TableOf(Dtype::kF32, 128, RandomRows(VectorKind::kGaussian, 40000, 128, random));
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> query(128, 1.0f);
  const int64_t all_blocks = Search(*index, {Metric::kDot, 1, {View(query)}, {}}, pool).stats.blocks_scanned;
  // Turns true after some polls; each lane may have begun one block before it saw that.
  std::atomic<int> polls{0};
  const NeighbourResult got =
      Search(*index, {Metric::kDot, 1, {View(query)}, {}}, pool, [&polls] { return polls.fetch_add(1) >= 6; });
  EXPECT_EQ(got.outcome, WorkOutcome::kStopped);
  EXPECT_LE(got.stats.blocks_scanned, 6);
  EXPECT_GT(all_blocks, 20);
}

TEST(ExactIndexTest, BuildingStopsBetweenBlocks) {
  WorkerPool pool(2);
  std::mt19937_64 random(9);
  const auto table = TableOf(Dtype::kF32, 8, RandomRows(VectorKind::kGaussian, 40000, 128, random));
  // At once, and among the 79 blocks.
  for (const int polls : {0, 20}) {
    std::atomic<int> asked{0};
    const auto index = BuildExactIndex(*table, /*with_codes=*/true, pool, [&] { return asked++ >= polls; });
    EXPECT_EQ(index.status().code(), absl::StatusCode::kCancelled) << polls;
    EXPECT_LE(asked.load(), polls + 8);  // each lane asks once more
  }
}

TEST(ExactIndexTest, StopsInsideTheFullScan) {
  WorkerPool pool(2);
  std::mt19937_64 random(6);
  const auto table = TableOf(Dtype::kF32, 128, RandomRows(VectorKind::kHuge, 20000, 128, random));
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> query(128, 1.0f);
  std::atomic<int> polls{0};
  const NeighbourResult got =
      Search(*index, {Metric::kDot, 1, {View(query)}, {}}, pool, [&polls] { return polls.fetch_add(1) >= 6; });
  EXPECT_EQ(got.outcome, WorkOutcome::kStopped);
  EXPECT_LE(got.stats.blocks_scanned, 6);
}

TEST(ExactIndexTest, FewAllowedRowsAreScoredWithoutAPass) {
  WorkerPool pool(2);
  std::mt19937_64 random(7);
  const auto table = TableOf(Dtype::kF32, 32, RandomRows(VectorKind::kGaussian, 20000, 32, random));
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<int64_t> allow = {19999, 5, 5, 700, 20000, int64_t{1} << 62};
  const std::vector<int64_t> deny = {5};
  NeighbourQuery query{Metric::kCosine, 10, {{table->row(700), ElementType::kF32}}, {}};
  query.filter.allow = allow;
  query.filter.deny = deny;
  const NeighbourResult got = Search(*index, query, pool);
  ASSERT_EQ(got.neighbours[0].size(), 2u);
  EXPECT_EQ(got.neighbours[0][0], (Neighbour{700, 1.0f}));
  EXPECT_EQ(got.neighbours[0][1].id, 19999);
  EXPECT_EQ(got.stats.rows_scanned, 0);
  EXPECT_EQ(got.stats.rows_rescored, 2);
  EXPECT_EQ(got.stats.fallback_queries, 0);
}

TEST(ExactIndexTest, RangeOfRowsIsAllThatIsScanned) {
  WorkerPool pool(2);
  std::mt19937_64 random(8);
  const auto table = TableOf(Dtype::kF32, 32, RandomRows(VectorKind::kGaussian, 20000, 32, random));
  const auto index = BuildExactIndex(*table, pool);
  NeighbourQuery query{Metric::kDot, 5, {{table->row(2500), ElementType::kF32}}, {{2500}}};
  query.filter.first_row = 2000;
  query.filter.end_row = 3000;
  const NeighbourResult got = Search(*index, query, pool);
  EXPECT_EQ(got.stats.rows_scanned, 1000);
  for (const Neighbour& neighbour : got.neighbours[0]) {
    EXPECT_GE(neighbour.id, 2000);
    EXPECT_LT(neighbour.id, 3000);
    EXPECT_NE(neighbour.id, 2500);
  }
  EXPECT_EQ(got.neighbours[0].size(), 5u);
  // k beside the range, not the table, decides whether a pass pays.
  query.k = 900;
  EXPECT_EQ(Search(*index, query, pool).stats.rows_rescored, 1000);
}

TEST(ExactIndexTest, ThresholdSavesTheRescoringOfFarRows) {
  WorkerPool pool(2);
  std::mt19937_64 random(9);
  const auto table = TableOf(Dtype::kF32, 64, RandomRows(VectorKind::kGaussian, 20000, 64, random));
  const auto index = BuildExactIndex(*table, pool);
  NeighbourQuery query{Metric::kCosine, 100, {{table->row(3), ElementType::kF32}}, {}};
  query.threshold = 0.9f;  // no random row is that close but the query's own
  const NeighbourResult got = Search(*index, query, pool);
  EXPECT_EQ(got.neighbours[0], (std::vector<Neighbour>{{3, 1.0f}}));
  EXPECT_EQ(got.stats.rows_rescored, 1);
}

TEST(ExactIndexTest, FilterThatLetsNothingThroughGivesEmptyResults) {
  WorkerPool pool(1);
  const auto table = TableOf(Dtype::kF32, 3, kToys);
  const auto index = BuildExactIndex(*table, pool);
  const std::vector<float> robot = {1, 0, 1};
  NeighbourQuery query{Metric::kDot, 4, {View(robot), View(robot)}, {}};
  query.filter.allow.emplace();
  EXPECT_THAT(Search(*index, query, pool).neighbours, ElementsAre(IsEmpty(), IsEmpty()));
  query.filter.allow.reset();
  query.filter.first_row = 4;
  EXPECT_THAT(Search(*index, query, pool).neighbours, ElementsAre(IsEmpty(), IsEmpty()));
  query.filter.first_row = 2;
  query.filter.end_row = 2;
  EXPECT_THAT(Search(*index, query, pool).neighbours, ElementsAre(IsEmpty(), IsEmpty()));
}

}  // namespace
}  // namespace embedding
