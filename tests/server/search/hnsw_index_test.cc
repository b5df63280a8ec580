#include "server/search/hnsw_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "server/search/hnsw_file.h"
#include "server/table/table_memory.h"
#include "tests/server/search/search_testing.h"

namespace embedding {
namespace {

using ::testing::IsEmpty;
using testing::Search;
using ::testing::SizeIs;
using testing::TableOf;

// ctest runs every test in a process of its own, which builds its own graph: small ones, but where recall is measured.
constexpr int64_t kRows = 4000;
constexpr int64_t kRecallRows = 10000;
constexpr int64_t kDim = 24;
constexpr int kBuildThreads = 2;

// kGroups: 400 of them, whose rows differ by a thousandth, for any seed at the same places. kFarGroups: of rows that
// differ by a twentieth, all far off in one direction.
enum class Shape { kGaussian, kClustered, kGroups, kFarGroups };

std::vector<float> GroupedValues(int64_t num_rows, uint64_t seed, float spread, float common) {
  std::normal_distribution<float> normal;
  std::mt19937_64 places(20261130);
  std::vector<float> centres(400 * kDim);
  for (float& x : centres) x = normal(places);
  std::mt19937_64 random(seed);
  std::vector<float> values;
  for (int64_t row = 0; row < num_rows; ++row) {
    const size_t centre = random() % 400 * kDim;
    for (size_t j = 0; j < kDim; ++j) values.push_back(centres[centre + j] + spread * normal(random) + common);
  }
  return values;
}

std::vector<float> Values(Shape shape, int64_t num_rows, uint64_t seed) {
  if (shape == Shape::kGroups) return GroupedValues(num_rows, seed, 1e-3f, 0);
  if (shape == Shape::kFarGroups) return GroupedValues(num_rows, seed, 5e-2f, 3);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> centres(50 * kDim);
  for (float& x : centres) x = 3 * normal(random);
  std::vector<float> values;
  for (int64_t row = 0; row < num_rows; ++row) {
    const size_t centre = random() % 50 * kDim;
    for (size_t j = 0; j < kDim; ++j) {
      values.push_back(normal(random) + (shape == Shape::kClustered ? centres[centre + j] : 0));
    }
  }
  return values;
}

std::unique_ptr<NeighbourIndex> IndexOf(const EmbeddingTable& table, Metric metric = Metric::kCosine) {
  WorkerPool pool(kBuildThreads);
  absl::StatusOr<HnswParts> parts = BuildHnswParts(table, {metric, 16, 100}, pool);
  EXPECT_TRUE(parts.ok()) << parts.status();
  return MakeHnswIndex(table, BuildExactIndex(table, pool), *std::move(parts));
}

std::vector<VectorView> Views(const std::vector<float>& vectors) {
  std::vector<VectorView> views;
  for (size_t at = 0; at < vectors.size(); at += kDim) views.push_back({&vectors[at], ElementType::kF32});
  return views;
}

// One table and index for all that needs no other.
struct Gaussian {
  std::unique_ptr<EmbeddingTable> table = TableOf(Dtype::kF32, kDim, Values(Shape::kGaussian, kRows, 1));
  std::unique_ptr<NeighbourIndex> index = IndexOf(*table);
  std::vector<float> vectors = Values(Shape::kGaussian, 40, 2);
  WorkerPool pool{2};

  NeighbourQuery Query(int64_t k, int64_t effort) const {
    NeighbourQuery query{Metric::kCosine, k, Views(vectors)};
    query.effort = effort;
    return query;
  }
};

Gaussian& Shared() {
  static auto& shared = *new Gaussian;
  return shared;
}

double Recall(const NeighbourResult& found, const NeighbourResult& exact) {
  size_t hits = 0;
  size_t all = 0;
  for (size_t q = 0; q < exact.neighbours.size(); ++q) {
    std::set<int64_t> ids;
    for (const Neighbour& neighbour : found.neighbours[q]) ids.insert(neighbour.id);
    for (const Neighbour& neighbour : exact.neighbours[q]) hits += ids.count(neighbour.id);
    all += exact.neighbours[q].size();
  }
  return static_cast<double>(hits) / static_cast<double>(all);
}

struct RecallCase {
  const char* name;
  Shape shape;
  Dtype dtype;
  Metric metric;
  double at_16, at_64, at_256;  // at the least; measured values are above
};

class HnswRecallTest : public ::testing::TestWithParam<RecallCase> {};

TEST_P(HnswRecallTest, GrowsWithEffort) {
  const RecallCase& test = GetParam();
  const auto table = TableOf(test.dtype, kDim, Values(test.shape, kRecallRows, 3));
  const auto index = IndexOf(*table, test.metric);
  const std::vector<float> vectors = Values(test.shape, 100, 4);
  WorkerPool pool(2);
  NeighbourQuery query{test.metric, 10, Views(vectors)};
  const NeighbourResult exact = Search(*index, query, pool);
  EXPECT_TRUE(exact.exact);
  std::vector<double> recalls;
  std::vector<int64_t> scanned;
  for (const int64_t effort : {16, 64, 256}) {
    query.effort = effort;
    const NeighbourResult found = Search(*index, query, pool);
    EXPECT_FALSE(found.exact);
    EXPECT_LT(found.stats.rows_scanned, kRecallRows * 100 / 2);
    recalls.push_back(Recall(found, exact));
    scanned.push_back(found.stats.rows_scanned);
  }
  RecordProperty("recalls", ::testing::PrintToString(recalls));
  EXPECT_GE(recalls[0], test.at_16);
  EXPECT_GE(recalls[1], test.at_64);
  EXPECT_GE(recalls[2], test.at_256);
  EXPECT_LT(recalls[0], recalls[2]);
  EXPECT_LT(scanned[0], scanned[1]);
  EXPECT_LT(scanned[1], scanned[2]);
}

INSTANTIATE_TEST_SUITE_P(
    Tables, HnswRecallTest,
    ::testing::Values(
        RecallCase{"GaussianCosine", Shape::kGaussian, Dtype::kF32, Metric::kCosine, 0.75, 0.96, 0.99},
        RecallCase{"GaussianDot", Shape::kGaussian, Dtype::kF32, Metric::kDot, 0.75, 0.96, 0.99},
        RecallCase{"GaussianEuclidean", Shape::kGaussian, Dtype::kF32, Metric::kEuclidean, 0.75, 0.96, 0.99},
        RecallCase{"ClusteredCosine", Shape::kClustered, Dtype::kF32, Metric::kCosine, 0.5, 0.8, 0.93},
        RecallCase{"ClusteredEuclidean", Shape::kClustered, Dtype::kF32, Metric::kEuclidean, 0.5, 0.8, 0.95},
        RecallCase{"SmallTightGroups", Shape::kGroups, Dtype::kF32, Metric::kCosine, 0.95, 0.99, 0.99},
        RecallCase{"FarGroupsDot", Shape::kFarGroups, Dtype::kF32, Metric::kDot, 0.9, 0.9, 0.99},
        RecallCase{"HalfPrecision", Shape::kGaussian, Dtype::kF16, Metric::kCosine, 0.75, 0.96, 0.99},
        RecallCase{"Integers", Shape::kGaussian, Dtype::kI8, Metric::kEuclidean, 0.7, 0.96, 0.99}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(HnswIndexTest, ScoresAndOrderAreCanonicalToTheBit) {
  Gaussian& shared = Shared();
  const NeighbourResult found = Search(*shared.index, shared.Query(10, 64), shared.pool);
  ASSERT_FALSE(found.exact);
  for (size_t q = 0; q < found.neighbours.size(); ++q) {
    const std::vector<Neighbour>& neighbours = found.neighbours[q];
    ASSERT_THAT(neighbours, SizeIs(10));
    for (size_t i = 0; i < neighbours.size(); ++i) {
      const float want = CanonicalScore(Metric::kCosine, {&shared.vectors[q * kDim], ElementType::kF32},
                                        {shared.table->row(neighbours[i].id), ElementType::kF32}, kDim);
      EXPECT_EQ(testing::Bits({{neighbours[i].id, want}}), testing::Bits({neighbours[i]}));
      EXPECT_TRUE(i == 0 || IsCloser(Metric::kCosine, neighbours[i - 1], neighbours[i]));
    }
  }
}

TEST(HnswIndexTest, SearchesWithoutEffortOrOfAnotherMetricAreExact) {
  Gaussian& shared = Shared();
  NeighbourQuery query = shared.Query(10, 64);
  query.metric = Metric::kDot;
  const NeighbourResult other = Search(*shared.index, query, shared.pool);
  EXPECT_TRUE(other.exact);
  const auto exact = BuildExactIndex(*shared.table, shared.pool);
  EXPECT_EQ(other.neighbours, Search(*exact, query, shared.pool).neighbours);
}

TEST(HnswIndexTest, FilterExclusionsAndThresholdHold) {
  Gaussian& shared = Shared();
  NeighbourQuery query = shared.Query(10, 32);
  std::vector<int64_t> denied;
  for (int64_t id = 0; id < kRows; id += 3) denied.push_back(id);
  query.filter = {std::nullopt, denied, 200, 3000};
  const NeighbourResult all = Search(*shared.index, query, shared.pool);
  ASSERT_FALSE(all.exact);
  query.excluded_rows.resize(query.queries.size());
  for (size_t q = 0; q < query.queries.size(); ++q) {
    ASSERT_THAT(all.neighbours[q], SizeIs(10));
    query.excluded_rows[q] = {all.neighbours[q][0].id};
  }
  const float threshold = all.neighbours[0][4].score;
  query.threshold = threshold;
  const NeighbourResult found = Search(*shared.index, query, shared.pool);
  ASSERT_FALSE(found.exact);
  EXPECT_GE(found.neighbours[0].size(), 4u);
  for (size_t q = 0; q < found.neighbours.size(); ++q) {
    for (const Neighbour& neighbour : found.neighbours[q]) {
      EXPECT_NE(neighbour.id % 3, 0);
      EXPECT_GE(neighbour.id, 200);
      EXPECT_LT(neighbour.id, 3000);
      EXPECT_NE(neighbour.id, query.excluded_rows[q][0]);
      EXPECT_GE(neighbour.score, threshold);
    }
  }
}

TEST(HnswIndexTest, ExactSearchAnswersWhereTheWalkWouldCostMore) {
  Gaussian& shared = Shared();
  const auto exact = BuildExactIndex(*shared.table, shared.pool);
  NeighbourQuery few = shared.Query(10, 64);
  std::vector<int64_t> allowed(140);
  std::iota(allowed.begin(), allowed.end(), 1000);
  few.filter.allow = allowed;
  NeighbourQuery nothing = shared.Query(10, 64);
  nothing.filter.allow = std::span<const int64_t>();
  NeighbourQuery all = shared.Query(kRows + 1, 1);
  all.queries.resize(2);
  // 2 m * 126 steps would come by 4,032 rows.
  for (const NeighbourQuery& query : {few, nothing, all, shared.Query(10, 126)}) {
    const NeighbourResult found = Search(*shared.index, query, shared.pool);
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.neighbours, Search(*exact, query, shared.pool).neighbours);
  }
  EXPECT_FALSE(Search(*shared.index, shared.Query(10, 125), shared.pool).exact);
}

TEST(HnswIndexTest, QueryOfZerosIsAnsweredExactlyAmongOthers) {
  Gaussian& shared = Shared();
  std::vector<float> vectors = shared.vectors;
  std::fill(vectors.begin() + kDim, vectors.begin() + 2 * kDim, 0.0f);
  NeighbourQuery query = shared.Query(3, 64);
  query.queries = Views(vectors);
  query.excluded_rows.assign(query.queries.size(), {});
  query.excluded_rows[1] = {1, 0};
  const NeighbourResult found = Search(*shared.index, query, shared.pool);
  EXPECT_FALSE(found.exact);
  EXPECT_THAT(found.neighbours[1], ::testing::ElementsAre(Neighbour{2, 0}, Neighbour{3, 0}, Neighbour{4, 0}));
  EXPECT_THAT(found.neighbours[0], SizeIs(3));
}

TEST(HnswIndexTest, OneRowAndOnlyZerosAreTables) {
  WorkerPool pool(1);
  const std::vector<float> one(kDim, 1.0f);
  const std::vector<float> zeros(3 * kDim, 0.0f);
  for (const Metric metric : {Metric::kCosine, Metric::kDot, Metric::kEuclidean}) {
    for (const std::vector<float>& values : {one, zeros}) {
      const auto table = TableOf(Dtype::kF32, kDim, values);
      const auto index = IndexOf(*table, metric);
      NeighbourQuery query{metric, 5, {{one.data(), ElementType::kF32}}};
      const NeighbourResult exact = Search(*index, query, pool);
      query.effort = 10;
      EXPECT_EQ(Search(*index, query, pool).neighbours, exact.neighbours);
      EXPECT_THAT(exact.neighbours[0], SizeIs(values.size() / kDim));
    }
  }
}

// Equal rows would link to nothing but each other; zeros too.
TEST(HnswIndexTest, EqualRowsHideNeitherEachOtherNorTheRest) {
  std::vector<float> values = Values(Shape::kGaussian, kRows, 5);
  for (int64_t row = 0; row < kRows; row += 2) {
    for (int64_t j = 0; j < kDim; ++j) {
      values[static_cast<size_t>(row * kDim + j)] = row % 4 == 0 ? 0 : values[static_cast<size_t>(2 * kDim + j)];
    }
  }
  const auto table = TableOf(Dtype::kF32, kDim, values);
  const std::vector<float> vectors = Values(Shape::kGaussian, 50, 6);
  WorkerPool pool(2);
  for (const Metric metric : {Metric::kCosine, Metric::kEuclidean}) {
    const auto index = IndexOf(*table, metric);
    NeighbourQuery query{metric, 10, Views(vectors)};
    query.queries.push_back({&values[2 * kDim], ElementType::kF32});
    const NeighbourResult exact = Search(*index, query, pool);
    query.effort = 64;
    const NeighbourResult found = Search(*index, query, pool);
    EXPECT_FALSE(found.exact);
    EXPECT_GE(Recall(found, exact), 0.9);
    EXPECT_EQ(found.neighbours.back(), exact.neighbours.back());  // the lowest ids of 1,000 that tie
  }
}

// Every row has a negative cosine: rows of zeros and of lengths that float32 cannot judge are closer.
TEST(HnswIndexTest, RowsOutsideOfTheGraphAreFound) {
  std::vector<float> values = Values(Shape::kGaussian, kRows, 7);
  for (size_t i = 0; i < values.size(); i += kDim) values[i] = -20;
  for (const size_t row : {100u, 3000u}) std::fill_n(values.begin() + static_cast<int64_t>(row * kDim), kDim, 0.0f);
  std::fill_n(values.begin() + 300 * kDim, kDim, 1e-30f);
  const auto table = TableOf(Dtype::kF32, kDim, values);
  const auto index = IndexOf(*table);
  std::vector<float> vector(kDim, 0.0f);
  vector[0] = 1;
  WorkerPool pool(1);
  NeighbourQuery query{Metric::kCosine, 4, {{vector.data(), ElementType::kF32}}};
  const NeighbourResult exact = Search(*index, query, pool);
  query.effort = 64;
  const NeighbourResult found = Search(*index, query, pool);
  EXPECT_FALSE(found.exact);
  ASSERT_THAT(found.neighbours[0], SizeIs(4));
  EXPECT_EQ(found.neighbours[0][0].id, 300);
  EXPECT_EQ(found.neighbours[0][1], (Neighbour{100, 0}));
  EXPECT_EQ(found.neighbours[0][2], (Neighbour{3000, 0}));
  EXPECT_EQ(exact.neighbours[0][0], found.neighbours[0][0]);
}

TEST(HnswIndexTest, StoppedSearchSaysSo) {
  Gaussian& shared = Shared();
  std::atomic<int> polls{0};
  const NeighbourResult found =
      Search(*shared.index, shared.Query(10, 64), shared.pool, [&polls] { return ++polls > 100; });
  EXPECT_EQ(found.outcome, WorkOutcome::kStopped);
  EXPECT_THAT(found.neighbours[0], IsEmpty());
  EXPECT_LT(polls, 200);
}

TEST(HnswIndexTest, BuildTellsProgressAndStopsInTheMiddle) {
  Gaussian& shared = Shared();
  WorkerPool pool(kBuildThreads);
  std::atomic<bool> stop{false};
  int64_t told = 0;
  const auto progress = [&](int64_t done, int64_t all) {
    EXPECT_EQ(all, kRows);
    EXPECT_GT(done, told);
    told = done;
    if (done > kRows / 4) stop = true;
  };
  const int64_t used = TableMemoryUsed();
  const auto parts = BuildHnswParts(
      *shared.table, {Metric::kCosine, 16, 100}, pool, [&] { return stop.load(); }, progress);
  EXPECT_EQ(parts.status().code(), absl::StatusCode::kCancelled);
  EXPECT_GT(told, kRows / 4);
  EXPECT_LT(told, kRows / 2);
  EXPECT_EQ(TableMemoryUsed(), used);
}

TEST(HnswIndexTest, GraphAndCodesCountAgainstTheMemoryOfTables) {
  Gaussian& shared = Shared();
  WorkerPool pool(kBuildThreads);
  // 33 links; 24 codes and three facts in a line of 64 bytes.
  const int64_t bytes = shared.index->graph()->size_bytes;
  EXPECT_GT(bytes, kRows * (33 * 4 + 64));
  EXPECT_LT(bytes, kRows * (33 * 4 + 64) * 21 / 20);
  const int64_t used = TableMemoryUsed();
  // Codes without a graph; a byte less than both.
  for (const int64_t allowed : {used + kRows * 64, used + kRows * (33 * 4 + 64) - 1}) {
    SetTableMemoryLimit(allowed);
    const auto parts = BuildHnswParts(*shared.table, {Metric::kCosine, 16, 100}, pool);
    SetTableMemoryLimit(0);
    EXPECT_TRUE(OverBudgetOf(parts.status()).has_value()) << parts.status();
  }
  EXPECT_EQ(TableMemoryUsed(), used);
}

// What Malkov and Yashunin ask of a graph: bounded lists without the row itself or any row twice, a share of 1/m of
// each level on the next one.
TEST(HnswIndexTest, GraphHasTheShapeThatItsSourceAsksFor) {
  const Gaussian& shared = Shared();
  WorkerPool pool(kBuildThreads);
  const auto parts = BuildHnswParts(*shared.table, {Metric::kCosine, 16, 100}, pool);
  ASSERT_TRUE(parts.ok());
  const HnswGraph& graph = parts->graph;
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint32_t* list = graph.Links(row);
    ASSERT_GE(list[0], 1u);
    ASSERT_LE(list[0], 32u);
    std::set<uint32_t> linked(list + 1, list + 1 + list[0]);
    EXPECT_EQ(linked.size(), list[0]);
    EXPECT_EQ(linked.count(row), 0u);
  }
  ASSERT_GE(graph.upper().size(), 2u);
  // Binomial: 250 +- 15, then 16 +- 4.
  EXPECT_NEAR(static_cast<double>(graph.upper()[0].rows.size()), kRows / 16.0, 60);
  EXPECT_NEAR(static_cast<double>(graph.upper()[1].rows.size()), kRows / 256.0, 10);
}

// A folder that is gone with the test.
class HnswFileTest : public ::testing::Test {
 protected:
  HnswFileTest() : folder_(std::filesystem::temp_directory_path() / "hnsw_file_test.XXXXXX") {
    std::string name = folder_.string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "t.npy.t.hnsw").string();
  }
  ~HnswFileTest() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Replace(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  absl::Status ReadAgain(const HnswParameters& parameters) const {
    return ReadHnswFile(path_, table_->fingerprint(), parameters, table_->num_rows()).status();
  }

  std::filesystem::path folder_;
  std::string path_;
  WorkerPool pool_{1};
  const HnswParameters parameters_ = {Metric::kCosine, 8, 40};
  std::unique_ptr<EmbeddingTable> table_ = TableOf(Dtype::kF32, kDim, Values(Shape::kGaussian, 3000, 9));
};

TEST_F(HnswFileTest, GraphReadBackAnswersAsTheOneWritten) {
  absl::StatusOr<HnswParts> built = BuildHnswParts(*table_, parameters_, pool_);
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(ReadAgain(parameters_).code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(WriteHnswFile(path_, table_->fingerprint(), built->graph), absl::OkStatus());
  ASSERT_EQ(WriteHnswFile(path_, table_->fingerprint(), built->graph), absl::OkStatus());  // in place of the first
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  absl::StatusOr<HnswParts> read = ReadHnswParts(*table_, path_, parameters_, pool_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->facts.from_file);
  EXPECT_EQ(read->facts.size_bytes, built->facts.size_bytes);
  const auto one = MakeHnswIndex(*table_, BuildExactIndex(*table_, pool_), *std::move(built));
  const auto other = MakeHnswIndex(*table_, BuildExactIndex(*table_, pool_), *std::move(read));
  const std::vector<float> vectors = Values(Shape::kGaussian, 30, 10);
  NeighbourQuery query{Metric::kCosine, 10, Views(vectors)};
  query.effort = 40;
  const NeighbourResult found = Search(*one, query, pool_);
  EXPECT_FALSE(found.exact);
  EXPECT_EQ(found.neighbours, Search(*other, query, pool_).neighbours);
}

TEST_F(HnswFileTest, FilesOfOtherRowsOrParametersAreToldApart) {
  const absl::StatusOr<HnswParts> built = BuildHnswParts(*table_, parameters_, pool_);
  ASSERT_TRUE(built.ok());
  ASSERT_EQ(WriteHnswFile(path_, table_->fingerprint(), built->graph), absl::OkStatus());
  for (const HnswParameters& other :
       {HnswParameters{Metric::kDot, 8, 40}, {Metric::kCosine, 9, 40}, {Metric::kCosine, 8, 41}}) {
    EXPECT_EQ(ReadAgain(other).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(ReadHnswFile(path_, std::string(32, '0'), parameters_, 3000).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(HnswFileTest, BrokenFilesAreRefused) {
  const absl::StatusOr<HnswParts> built = BuildHnswParts(*table_, parameters_, pool_);
  ASSERT_TRUE(built.ok());
  ASSERT_EQ(WriteHnswFile(path_, table_->fingerprint(), built->graph), absl::OkStatus());
  const std::string whole = Bytes();
  std::vector<std::string> broken = {"", "hello", whole.substr(0, 95), whole.substr(0, whole.size() - 1), whole + "x"};
  std::mt19937_64 random(12);
  for (int i = 0; i < 200; ++i) {
    // Any one bit, but of the header's parameters and fingerprint, which say that the file is another's.
    const size_t at = i == 0 ? 3 : 80 + random() % (whole.size() - 80);
    broken.push_back(whole);
    broken.back()[at] = static_cast<char>(broken.back()[at] ^ (1 << random() % 8));
  }
  for (const std::string& bytes : broken) {
    Replace(bytes);
    EXPECT_EQ(ReadAgain(parameters_).code(), absl::StatusCode::kDataLoss);
  }
  Replace(whole);
  EXPECT_EQ(ReadAgain(parameters_), absl::OkStatus());
}

// As somebody could write it who knows the format.
TEST_F(HnswFileTest, LinksThatLeadNowhereAreRefusedUnderAGoodChecksum) {
  absl::StatusOr<HnswParts> built = BuildHnswParts(*table_, parameters_, pool_);
  ASSERT_TRUE(built.ok());
  uint32_t* list = built->graph.mutable_lowest();
  ASSERT_GT(list[0], 0u);
  for (const auto& [at, value] : {std::pair<size_t, uint32_t>{0, 17}, {0, ~0u}, {1, 3000}, {1, ~0u}}) {
    const uint32_t old = std::exchange(list[at], value);
    ASSERT_EQ(WriteHnswFile(path_, table_->fingerprint(), built->graph), absl::OkStatus());
    EXPECT_EQ(ReadAgain(parameters_).code(), absl::StatusCode::kDataLoss) << at << " " << value;
    list[at] = old;
  }
  for (const int64_t entry : {-2, 3000}) EXPECT_FALSE(built->graph.SetUpper({}, entry).ok()) << entry;
}

TEST_F(HnswFileTest, LinksToRowsOutsideOfTheGraphAreRefusedUnderAGoodChecksum) {
  std::vector<float> values = Values(Shape::kGaussian, 3000, 9);
  std::fill_n(values.begin() + 5 * kDim, kDim, 0.0f);
  table_ = TableOf(Dtype::kF32, kDim, values);
  absl::StatusOr<HnswParts> built = BuildHnswParts(*table_, parameters_, pool_);
  ASSERT_TRUE(built.ok());
  ASSERT_EQ(WriteHnswFile(path_, table_->fingerprint(), built->graph), absl::OkStatus());
  EXPECT_EQ(ReadHnswParts(*table_, path_, parameters_, pool_).status(), absl::OkStatus());
  built->graph.mutable_lowest()[1] = 5;
  ASSERT_EQ(WriteHnswFile(path_, table_->fingerprint(), built->graph), absl::OkStatus());
  EXPECT_EQ(ReadHnswParts(*table_, path_, parameters_, pool_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(HnswFileTest, PlaceThatCannotBeWrittenIsNamedByItsReason) {
  const absl::StatusOr<HnswParts> built = BuildHnswParts(*table_, parameters_, pool_);
  ASSERT_TRUE(built.ok());
  const absl::Status status = WriteHnswFile((folder_ / "none" / "f").string(), table_->fingerprint(), built->graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "cannot be created: No such file or directory");
}

}  // namespace
}  // namespace embedding
