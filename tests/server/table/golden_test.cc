// Tables written by the formats' own libraries, against rows and fingerprints computed in Python: tests/golden/tables.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "server/table/load_table.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = EMBEDDING_GOLDEN_TABLES;

std::vector<std::vector<std::string>> ReadTsv(const std::string& path) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream in(ReadFile(path));
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == '\t') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    lines.push_back(std::move(fields));
  }
  return lines;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

absl::StatusOr<std::unique_ptr<EmbeddingTable>> Load(const std::string& path, const std::string& options) {
  const absl::StatusOr<TableOptions> parsed = ParseTableOptions("t=" + path + (options.empty() ? "" : "," + options));
  if (!parsed.ok()) return parsed.status();
  WorkerPool pool(2);
  return LoadTable(*parsed, {}, pool);
}

TEST(GoldenTableTest, RowsAndFingerprintsAreThoseOfTheReferenceLibraries) {
  const auto lines = ReadTsv(kFolder + "/expected.tsv");
  ASSERT_EQ(lines.size(), 37u);
  for (const std::vector<std::string>& line : lines) {
    ASSERT_EQ(line.size(), 8u);
    const std::string& file = line[0];
    if (file == "generated-30011x100-F32") continue;
    SCOPED_TRACE(file + " " + line[1]);
    const auto table = Load(kFolder + "/" + file, line[1]);
    ASSERT_THAT(table, Succeeds());
    EXPECT_EQ(std::to_string((*table)->num_rows()), line[2]);
    EXPECT_EQ(std::to_string((*table)->dim()), line[3]);
    EXPECT_EQ(DtypeName((*table)->dtype()), line[4]);
    EXPECT_EQ(DtypeName((*table)->source_dtype()), line[5]);
    const std::string rows = FromHex(line[6]);
    ASSERT_EQ(static_cast<size_t>((*table)->size_bytes()), rows.size());
    EXPECT_EQ(std::memcmp((*table)->rows(), rows.data(), rows.size()), 0);
    EXPECT_EQ((*table)->fingerprint(), line[7]);
    EXPECT_EQ((*table)->zero_rows(), 1);  // row 3
    EXPECT_TRUE((*table)->non_finite_rows().empty());
    const bool has_keys = line[1].find("vocab=") != std::string::npos;
    ASSERT_EQ((*table)->vocabulary() != nullptr, has_keys);
    if (has_keys) {
      EXPECT_EQ((*table)->vocabulary()->Find("東京"), 4);
    }
  }
}

TEST(GoldenTableTest, TheFingerprintOfSeveralBlocksIsThatOfPythonsXxhash) {
  // As make_tables.py: element i is the upper 24 bits of i * 2654435761 modulo 2^32.
  std::vector<float> values(30011 * 100);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<uint64_t>(i) * 2654435761u & 0xFFFFFFFFu) >> 8);
  }
  std::string expected;
  for (const auto& line : ReadTsv(kFolder + "/expected.tsv")) {
    if (line[0] == "generated-30011x100-F32") expected = line[7];
  }
  ASSERT_EQ(expected.size(), 32u);
  EXPECT_EQ(TableFromMemory("t", Dtype::kF32, 30011, 100, values.data())->fingerprint(), expected);

  const TempFolder folder;
  const std::string path =
      folder.Write("t.raw", std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  const auto table = Load(path, "format=raw,dtype=F32,dim=100");
  ASSERT_THAT(table, Succeeds());
  EXPECT_EQ((*table)->fingerprint(), expected);
}

TEST(GoldenTableTest, ArraysThatAreNoTablesAreRefused) {
  const auto lines = ReadTsv(kFolder + "/refused.tsv");
  ASSERT_EQ(lines.size(), 9u);
  for (const std::vector<std::string>& line : lines) {
    ASSERT_EQ(line.size(), 2u);
    EXPECT_THAT(Load(kFolder + "/" + line[0], ""), Fails(kDataLoss, HasSubstr(line[1])));
  }
}

// make_keyed_tables.py: gensim, numpy, safetensors and tokenizers wrote the rows of f32.raw.
TEST(GoldenTableTest, TablesWithKeysAreThoseOfTheReferenceTools) {
  const auto lines = ReadTsv(kFolder + "/keyed.tsv");
  ASSERT_EQ(lines.size(), 12u);
  const std::string rows = ReadFile(kFolder + "/f32.raw");
  for (const std::vector<std::string>& line : lines) {
    ASSERT_EQ(line.size(), 4u);
    SCOPED_TRACE(line[0] + " " + line[1]);
    const auto table = Load(kFolder + "/" + line[0], line[1]);
    ASSERT_THAT(table, Succeeds());
    EXPECT_EQ(TableFormatName((*table)->format()), line[2]);
    ASSERT_EQ(static_cast<size_t>((*table)->size_bytes()), rows.size());
    EXPECT_EQ(std::memcmp((*table)->rows(), rows.data(), rows.size()), 0);
    EXPECT_EQ((*table)->fingerprint(), line[3]);
    if ((*table)->vocabulary() != nullptr) {
      EXPECT_EQ((*table)->vocabulary()->Find("König"), 2);
    }
  }
}

TEST(GoldenTableTest, ManyTensorsWithoutANameAreListed) {
  EXPECT_THAT(
      Load(kFolder + "/many.safetensors", ""),
      Fails(kDataLoss, HasSubstr("\"embeddings.word\" F32 [7, 5], \"empty\" F32 [0, 4], \"position\" F16 [2, 3]")));
}

TEST(GoldenTableTest, TheSampleLoadsWithItsWords) {
  const auto table = Load(std::string(EMBEDDING_SAMPLE) + "/words.safetensors", "vocab=words.vocab.txt");
  ASSERT_THAT(table, Succeeds());
  EXPECT_EQ((*table)->num_rows(), 10000);
  EXPECT_EQ((*table)->dim(), 100);
  EXPECT_EQ((*table)->dtype(), Dtype::kF16);
  EXPECT_EQ((*table)->vocabulary()->Find("the"), 0);
  EXPECT_TRUE((*table)->vocabulary()->Find("queen").has_value());
  EXPECT_EQ((*table)->zero_rows(), 0);
  // The rows are the file's last bytes: it holds one tensor.
  const std::string file = ReadFile(std::string(EMBEDDING_SAMPLE) + "/words.safetensors");
  ASSERT_GT(file.size(), 2'000'000u);
  EXPECT_EQ(std::memcmp((*table)->rows(), file.data() + file.size() - 2'000'000, 2'000'000), 0);
}

}  // namespace
}  // namespace embedding
