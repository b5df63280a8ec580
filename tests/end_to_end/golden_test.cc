// The values that the README promises, over the wire: the real server on port 0, the real client, tables in files of
// each format and element type. Expected values are written down, or computed here in double from the values the file
// holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "client/embedding_client.h"
#include "proto/status_codec.h"
#include "server/server.h"
#include "tests/testing/table_files.h"

namespace embedding {
namespace {

using client::Ids;
using client::Keys;
using client::Layout;
using client::Metric;
using client::Vectors;
using ::embedding::testing::FileDtype;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// A folder of its own for each test, removed at the end.
class GoldenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "golden-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // tables: values of --table.
  void Serve(const std::vector<std::string>& tables) {
    ServerOptions options;
    options.grpc_address = "127.0.0.1:0";
    options.admin_address = "127.0.0.1:0";
    options.log_level = "error";
    for (const std::string& text : tables) {
      absl::StatusOr<TableOptions> table = ParseTableOptions(text);
      ASSERT_TRUE(table.ok()) << table.status();
      options.tables.push_back(*table);
    }
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const absl::Status loaded = server_->Load();
    ASSERT_TRUE(loaded.ok()) << loaded;
    ClientOptions client_options;
    client_options.address = server_->grpc_address();
    client_options.deadline = std::chrono::seconds(60);
    absl::StatusOr<std::unique_ptr<EmbeddingClient>> client = EmbeddingClient::Create(client_options);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  std::vector<float> Scores(const client::VectorSource& left, const client::VectorSource& right, Metric metric,
                            Layout layout = Layout::kAllPairs, const std::string& table = "") {
    const auto result =
        client_->Similarity({.table = {table, 0}, .left = left, .right = right, .layout = layout, .metric = metric});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->scores : std::vector<float>();
  }

  std::string folder_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<EmbeddingClient> client_;
};

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
double Cosine(const std::vector<double>& a, const std::vector<double>& b) {
  return Dot(a, b) / (std::sqrt(Dot(a, a)) * std::sqrt(Dot(b, b)));
}
double Euclidean(const std::vector<double>& a, const std::vector<double>& b) {
  return std::sqrt(Dot(a, a) - 2 * Dot(a, b) + Dot(b, b));
}

struct FileCase {
  const char* name;
  const char* format;
  FileDtype dtype;
};

void PrintTo(const FileCase& c, std::ostream* out) { *out << c.name; }

// The worked example: robot, arm, box, tool in three dimensions.
class GoldenFileTest : public GoldenTest, public ::testing::WithParamInterface<FileCase> {
 protected:
  static constexpr float kRows[4][3] = {{1, 0, 1}, {.9f, .1f, .8f}, {0, 1, 0}, {-1, 0, .5f}};

  void SetUp() override {
    GoldenTest::SetUp();
    const FileCase& c = GetParam();
    const std::span<const float> values(&kRows[0][0], 12);
    const std::string path = Path("table");
    std::string table = "words=" + path + ",vocab=words.txt,format=" + c.format;
    if (std::string(c.format) == "safetensors") {
      embedding::testing::WriteSafetensors(path, values, 3, c.dtype);
    } else if (std::string(c.format) == "npy") {
      embedding::testing::WriteNpy(path, values, 3, c.dtype);
    } else if (std::string(c.format) == "fbin") {
      embedding::testing::WriteFbin(path, values, 3);
    } else {
      embedding::testing::WriteFile(path, embedding::testing::ElementBytes(values, c.dtype));
      table += std::string(",dim=3,dtype=") + (c.dtype == FileDtype::kF32   ? "F32"
                                               : c.dtype == FileDtype::kF16 ? "F16"
                                                                            : "BF16");
    }
    embedding::testing::WriteFile(Path("words.txt"), "robot\narm\nbox\ntool\n");
    Serve({table});
  }

  std::vector<double> Row(int row) const {
    std::vector<double> values;
    for (const float value : kRows[row]) values.push_back(embedding::testing::Rounded(value, GetParam().dtype));
    return values;
  }

  // What float32 makes of the double results for the values that the file holds.
  std::vector<float> Expected(double (*score)(const std::vector<double>&, const std::vector<double>&)) const {
    std::vector<float> expected;
    for (const int other : {1, 2, 3}) expected.push_back(static_cast<float>(score(Row(0), Row(other))));
    return expected;
  }
};

TEST_P(GoldenFileTest, LookupGivesTheRowsInOrderWithDuplicates) {
  const auto rows = client_->Lookup({.table = {}, .rows = Keys{{"tool", "arm", "tool"}, {}}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(3, 3));
  std::vector<float> expected;
  for (const int row : {3, 1, 3}) {
    for (const double value : Row(row)) expected.push_back(static_cast<float>(value));
  }
  EXPECT_EQ(rows->embeddings.ToFloats(), expected);
  EXPECT_EQ(rows->embeddings.data.size(), 9u * (GetParam().dtype == FileDtype::kF32 ? 4 : 2));
}

TEST_P(GoldenFileTest, DotsAreThoseOfTheWorkedExample) {
  const std::vector<float> scores = Scores(Keys{{"robot"}, {}}, Ids{{1, 2, 3}, {}}, Metric::kDot);
  // 16-bit values of .9 and .8 differ from them by up to 2^-9 of theirs.
  EXPECT_THAT(scores, Pointwise(FloatNear(GetParam().dtype == FileDtype::kF32 ? 1e-6f : 4e-3f), {1.7f, 0.0f, -0.5f}));
  EXPECT_EQ(scores, Expected(Dot));
}

TEST_P(GoldenFileTest, CosinesAreThoseOfTheWorkedExample) {
  const std::vector<float> scores = Scores(Ids{{0}, {}}, Keys{{"arm", "box", "tool"}, {}}, Metric::kCosine);
  EXPECT_THAT(scores, Pointwise(FloatNear(6e-4f), {0.995f, 0.0f, -0.316f}));
  EXPECT_THAT(scores, Pointwise(::testing::FloatEq(), Expected(Cosine)));
}

TEST_P(GoldenFileTest, DistancesAreTrueDistances) {
  EXPECT_THAT(Scores(Ids{{0, 0, 0}, {}}, Ids{{1, 2, 3}, {}}, Metric::kEuclidean, Layout::kPairwise),
              Pointwise(FloatNear(1e-6f), Expected(Euclidean)));
}

TEST_P(GoldenFileTest, NeighboursOfRobotAreArmBoxTool) {
  const auto result = client_->NearestNeighbour({.table = {},
                                                 .targets = Keys{{"robot"}, {}},
                                                 .k = 10,
                                                 .metric = Metric::kCosine,
                                                 .include_inputs = false,
                                                 .return_keys = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->results[0].keys, ElementsAre("arm", "box", "tool"));
  EXPECT_THAT(result->results[0].ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(result->results[0].scores, Pointwise(::testing::FloatEq(), Expected(Cosine)));
}

INSTANTIATE_TEST_SUITE_P(
    Files, GoldenFileTest,
    ::testing::Values(FileCase{"safetensors_f32", "safetensors", FileDtype::kF32},
                      FileCase{"safetensors_f16", "safetensors", FileDtype::kF16},
                      FileCase{"safetensors_bf16", "safetensors", FileDtype::kBF16},
                      FileCase{"raw_f32", "raw", FileDtype::kF32}, FileCase{"raw_f16", "raw", FileDtype::kF16},
                      FileCase{"raw_bf16", "raw", FileDtype::kBF16}, FileCase{"npy_f32", "npy", FileDtype::kF32},
                      FileCase{"npy_f16", "npy", FileDtype::kF16}, FileCase{"fbin_f32", "fbin", FileDtype::kF32}),
    [](const ::testing::TestParamInfo<FileCase>& file) { return file.param.name; });

TEST_F(GoldenTest, VectorsOfTheCallersOwnAreComparedByEachMetric) {
  embedding::testing::WriteFbin(Path("two.fbin"), std::vector<float>{1, 0, 0, 1}, 2);
  Serve({"two=" + Path("two.fbin")});
  const Vectors three_four{{3, 4}, 2};
  const Vectors four_three{{4, 3}, 2};
  EXPECT_THAT(Scores(three_four, four_three, Metric::kDot), ElementsAre(24.0f));
  EXPECT_THAT(Scores(three_four, four_three, Metric::kCosine), ElementsAre(0.96f));
  EXPECT_THAT(Scores(three_four, four_three, Metric::kEuclidean), ElementsAre(std::sqrt(2.0f)));
}

TEST_F(GoldenTest, IdsOf8x128WithWidth256Give8x128x256) {
  constexpr int64_t kRows = 500;
  std::vector<float> values(kRows * 256);
  std::iota(values.begin(), values.end(), 0.0f);
  embedding::testing::WriteNpy(Path("wide.npy"), values, 256, FileDtype::kF32);
  Serve({"wide=" + Path("wide.npy")});
  std::mt19937_64 random(8128);
  Ids ids{{}, {8, 128}};
  for (int i = 0; i < 8 * 128; ++i) ids.values.push_back(static_cast<int64_t>(random() % kRows));
  const auto rows = client_->Lookup({.table = {}, .rows = ids});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(8, 128, 256));
  std::vector<float> expected;
  for (const int64_t id : ids.values) {
    for (int64_t j = 0; j < 256; ++j) expected.push_back(static_cast<float>(id * 256 + j));
  }
  EXPECT_EQ(rows->embeddings.ToFloats(), expected);
}

// one-hot(t) . E is row t of E. A score is the dot product with a row, so the product runs over the rows of the
// transposed table: its row j is column j of E.
TEST_F(GoldenTest, OneHotTimesTheTableIsTheRow) {
  constexpr int64_t kVocabulary = 37;
  constexpr int64_t kDim = 19;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> table(kVocabulary * kDim);
  for (float& value : table) value = normal(random);
  std::vector<float> transposed(table.size());
  for (int64_t t = 0; t < kVocabulary; ++t) {
    for (int64_t j = 0; j < kDim; ++j) transposed[j * kVocabulary + t] = table[t * kDim + j];
  }
  embedding::testing::WriteSafetensors(Path("e.safetensors"), table, kDim, FileDtype::kF32);
  embedding::testing::WriteSafetensors(Path("columns.safetensors"), transposed, kVocabulary, FileDtype::kF32);
  Serve({"e=" + Path("e.safetensors"), "columns=" + Path("columns.safetensors")});

  Vectors one_hot{std::vector<float>(kVocabulary * kVocabulary), kVocabulary};
  for (int64_t t = 0; t < kVocabulary; ++t) one_hot.values[t * kVocabulary + t] = 1;
  Ids columns{std::vector<int64_t>(kDim), {}};
  std::iota(columns.values.begin(), columns.values.end(), 0);
  Ids every_id{std::vector<int64_t>(kVocabulary), {}};
  std::iota(every_id.values.begin(), every_id.values.end(), 0);

  const auto rows = client_->Lookup({.table = {"e", 0}, .rows = every_id});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->embeddings.ToFloats(), table);
  EXPECT_EQ(Scores(one_hot, columns, Metric::kDot, Layout::kAllPairs, "columns"), table);

  const auto neighbours =
      client_->NearestNeighbour({.table = {"columns", 0}, .targets = one_hot, .k = kDim, .metric = Metric::kDot});
  ASSERT_TRUE(neighbours.ok()) << neighbours.status();
  std::vector<float> by_id(table.size());
  for (int64_t t = 0; t < kVocabulary; ++t) {
    const client::Neighbours& found = neighbours->results[t];
    ASSERT_EQ(found.ids.size(), static_cast<size_t>(kDim));
    for (int64_t rank = 0; rank < kDim; ++rank) by_id[t * kDim + found.ids[rank]] = found.scores[rank];
  }
  EXPECT_EQ(by_id, table);
}

// A table tied to an output layer: logits of a hidden state are its dot products with every row.
TEST_F(GoldenTest, TopLogitsOfAHiddenStateAreItsNeighboursByDot) {
  constexpr int64_t kVocabulary = 2000;
  constexpr int64_t kDim = 48;
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> table(kVocabulary * kDim);
  for (float& value : table) value = normal(random);
  std::vector<float> hidden(kDim);
  for (float& value : hidden) value = normal(random);
  embedding::testing::WriteNpy(Path("tied.npy"), table, kDim, FileDtype::kF32);
  Serve({"tied=" + Path("tied.npy") + ",metric=dot"});

  std::vector<std::pair<float, int64_t>> logits;  // negated, so that the default order is the one wanted
  for (int64_t row = 0; row < kVocabulary; ++row) {
    double sum = 0;
    for (int64_t j = 0; j < kDim; ++j) sum += double{hidden[j]} * table[row * kDim + j];
    logits.emplace_back(-static_cast<float>(sum), row);
  }
  std::sort(logits.begin(), logits.end());
  const auto result = client_->NearestNeighbour({.table = {}, .targets = Vectors{hidden, kDim}, .k = 50});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->metric, Metric::kDot);
  for (int rank = 0; rank < 50; ++rank) {
    EXPECT_EQ(result->results[0].ids[rank], logits[rank].second) << rank;
    EXPECT_FLOAT_EQ(result->results[0].scores[rank], -logits[rank].first) << rank;
  }
}

TEST_F(GoldenTest, SizesOfKnownTables) {
  // Files with holes: they take no room on disk.
  std::ofstream(Path("gpt2.raw")).close();
  std::filesystem::resize_file(Path("gpt2.raw"), 154'389'504);
  std::ofstream(Path("half.raw")).close();
  std::filesystem::resize_file(Path("half.raw"), 102'400'000);
  Serve({"gpt2=" + Path("gpt2.raw") + ",format=raw,dtype=F32,dim=768",
         "half=" + Path("half.raw") + ",format=raw,dtype=F16,dim=1024"});
  const auto gpt2 = client_->GetTable({"gpt2", 0});
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ(gpt2->rows, 50'257);
  EXPECT_EQ(gpt2->dim, 768);
  EXPECT_EQ(gpt2->parameters, 38'597'376);
  EXPECT_EQ(gpt2->bytes, 154'389'504);
  const auto half = client_->GetTable({"half", 0});
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->rows, 50'000);
  EXPECT_EQ(half->bytes, 102'400'000);
}

TEST_F(GoldenTest, BatchesOverTheLimitsEqualTheTable) {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kDim = 100;
  std::vector<float> values(kRows * kDim);
  std::iota(values.begin(), values.end(), 0.0f);
  embedding::testing::WriteNpy(Path("big.npy"), values, kDim, FileDtype::kF32);
  Serve({"big=" + Path("big.npy")});
  Ids ids;
  for (int64_t i = 0; i < 200'000; ++i) ids.values.push_back(i * 7919 % kRows);
  const auto rows = client_->Lookup({.table = {}, .rows = ids});  // 80 MB: four parts by ids
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(200'000, kDim));
  const std::vector<float> floats = rows->embeddings.ToFloats();
  size_t wrong = 0;
  for (size_t i = 0; i < ids.values.size(); ++i) {
    for (int64_t j = 0; j < kDim; ++j) wrong += floats[i * kDim + j] != static_cast<float>(ids.values[i] * kDim + j);
  }
  EXPECT_EQ(wrong, 0u);

  ids.values.resize(1500);  // 1,500 x 1,500 pairs and 1,500 queries: over 1,048,576 and 1,024
  const std::vector<float> scores = Scores(ids, ids, Metric::kDot);
  ASSERT_EQ(scores.size(), 1500u * 1500u);
  EXPECT_EQ(scores[1499 * 1500 + 7], Scores(Ids{{ids.values[1499]}, {}}, Ids{{ids.values[7]}, {}}, Metric::kDot)[0]);
  const auto neighbours = client_->NearestNeighbour({.table = {}, .targets = ids, .k = 1, .include_inputs = true});
  ASSERT_TRUE(neighbours.ok()) << neighbours.status();
  EXPECT_EQ(neighbours->results.size(), 1500u);
}

TEST_F(GoldenTest, AnIdBeyondTheTableIsNamedInTheCallersBatch) {
  embedding::testing::WriteFbin(Path("two.fbin"), std::vector<float>{1, 0, 0, 1}, 2);
  Serve({"two=" + Path("two.fbin")});
  Ids ids{std::vector<int64_t>(70'000, 1), {}};
  ids.values[65'540] = 2;
  const absl::Status status = client_->Lookup({.table = {}, .rows = ids}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in ids[65536..69999], positions counted from there: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("[4] is 2, table \"two\" has 2 rows"));
  EXPECT_EQ(DetailsOf(status).reason, "ID_OUT_OF_RANGE");
}

struct GoldenFile {
  const char* name;
  const char* table;   // in golden/tables, with options
  const char* stored;  // in golden/tables: the rows as they are stored
  const char* floats;  // in golden/converted: 8 bytes, then the rows as float32, by numpy and ml_dtypes
  client::Dtype dtype;
};

void PrintTo(const GoldenFile& file, std::ostream* out) { *out << file.name; }

std::string BytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Tables that numpy, ml_dtypes and safetensors wrote: 7 rows of width 5, row 3 of zeros.
class GoldenBytesTest : public GoldenTest, public ::testing::WithParamInterface<GoldenFile> {
 protected:
  static constexpr int64_t kRows = 7;
  static constexpr int64_t kDim = 5;

  void SetUp() override {
    GoldenTest::SetUp();
    const std::string golden = EMBEDDING_GOLDEN;
    stored_ = BytesOf(golden + "/tables/" + GetParam().stored);
    const std::string floats = BytesOf(golden + "/converted/" + GetParam().floats).substr(8);
    ASSERT_EQ(floats.size(), kRows * kDim * sizeof(float));
    values_.resize(kRows * kDim);
    std::memcpy(values_.data(), floats.data(), floats.size());
    Serve({"t=" + golden + "/tables/" + GetParam().table});
  }

  std::vector<double> Row(int64_t row) const {
    return std::vector<double>(values_.begin() + row * kDim, values_.begin() + (row + 1) * kDim);
  }

  std::string stored_;
  std::vector<float> values_;
};

TEST_P(GoldenBytesTest, RowsComeAsStoredAndWidened) {
  const Ids all{{0, 1, 2, 3, 4, 5, 6}, {}};
  const auto rows = client_->Lookup({.table = {}, .rows = all});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->embeddings.dtype, GetParam().dtype);
  EXPECT_EQ(rows->embeddings.data, stored_);
  EXPECT_EQ(rows->embeddings.ToFloats(), values_);
  client::LookupRequest widened;
  widened.rows = all;
  widened.output_dtype = client::Dtype::kF32;
  const auto floats = client_->Lookup(widened);
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ(floats->embeddings.dtype, client::Dtype::kF32);
  EXPECT_EQ(floats->embeddings.ToFloats(), values_);
  const auto info = client_->GetTable({});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->dtype, GetParam().dtype);
  EXPECT_EQ(info->source_dtype, GetParam().dtype);
  EXPECT_EQ(info->bytes, static_cast<int64_t>(stored_.size()));
  EXPECT_EQ(info->zero_rows, 1);
}

TEST_P(GoldenBytesTest, ScoresAndNeighboursAreThoseOfTheValues) {
  std::vector<float> dots;
  std::vector<std::pair<double, int64_t>> closest;
  for (int64_t row = 1; row < kRows; ++row) {
    dots.push_back(static_cast<float>(Dot(Row(0), Row(row))));
    closest.emplace_back(-Dot(Row(0), Row(row)), row);
  }
  std::sort(closest.begin(), closest.end());
  EXPECT_THAT(Scores(Ids{{0}, {}}, Ids{{1, 2, 3, 4, 5, 6}, {}}, Metric::kDot), Pointwise(::testing::FloatEq(), dots));
  client::NearestNeighbourRequest request;
  request.targets = Ids{{0}, {}};
  request.k = 6;
  request.metric = Metric::kDot;
  request.return_vectors = true;
  const auto result = client_->NearestNeighbour(request);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->results[0].ids.size(), 6u);
  EXPECT_EQ(result->results[0].vectors.dtype, GetParam().dtype);
  const std::vector<float> vectors = result->results[0].vectors.ToFloats();
  for (size_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(result->results[0].ids[rank], closest[rank].second) << rank;
    for (int64_t j = 0; j < kDim; ++j) {
      EXPECT_EQ(vectors[rank * kDim + static_cast<size_t>(j)], Row(closest[rank].second)[static_cast<size_t>(j)]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, GoldenBytesTest,
    ::testing::Values(
        GoldenFile{"i8", "i8.safetensors", "i8.raw", "I8-to-F32.fbin", client::Dtype::kI8},
        GoldenFile{"u8", "u8.safetensors", "u8.raw", "U8-to-F32.fbin", client::Dtype::kU8},
        GoldenFile{"e4m3", "f8_e4m3.safetensors", "f8_e4m3.raw", "F8_E4M3-to-F32.fbin", client::Dtype::kF8E4M3},
        GoldenFile{"e5m2", "f8_e5m2.safetensors", "f8_e5m2.raw", "F8_E5M2-to-F32.fbin", client::Dtype::kF8E5M2},
        GoldenFile{"i1_npy", "i1.npy", "i8.raw", "I8-to-F32.fbin", client::Dtype::kI8},
        GoldenFile{"i8bin", "table.i8bin", "i8.raw", "I8-to-F32.fbin", client::Dtype::kI8},
        GoldenFile{"u8bin", "table.u8bin", "u8.raw", "U8-to-F32.fbin", client::Dtype::kU8},
        GoldenFile{"f16bin", "table.f16bin", "f16.raw", "F16-to-F32.fbin", client::Dtype::kF16},
        GoldenFile{"bvecs", "table.bvecs", "u8.raw", "U8-to-F32.fbin", client::Dtype::kU8},
        GoldenFile{"fvecs", "table.fvecs", "f32.raw", "F32.fbin", client::Dtype::kF32}),
    [](const ::testing::TestParamInfo<GoldenFile>& file) { return file.param.name; });

}  // namespace
}  // namespace embedding
