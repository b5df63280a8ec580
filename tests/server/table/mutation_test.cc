// Golden files with damage: whatever a byte becomes, a load either succeeds with a table inside its limits or names a
// reason.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "server/table/load_table.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class MutationTest : public ::testing::TestWithParam<const char*> {
 protected:
  void LoadDamaged(const std::string& bytes) {
    const std::string path = folder_.Write(GetParam(), bytes);
    const absl::StatusOr<TableOptions> options = ParseTableOptions("t=" + path);
    ASSERT_THAT(options, Succeeds());
    const auto table = LoadTable(*options, {.max_rows = 1000, .max_dim = 1000}, pool_);
    if (table.ok()) {
      EXPECT_GE((*table)->num_rows(), 1);
      EXPECT_LE((*table)->num_rows(), 1000);
      // A number of one digit, and the blank before it, are four bytes in memory.
      EXPECT_LE(static_cast<size_t>((*table)->size_bytes()), 2 * bytes.size());
      EXPECT_TRUE((*table)->non_finite_rows().empty());
    } else {
      EXPECT_THAT(table, Fails(kDataLoss, AllOf(StartsWith(path + ": "), Not(HasSubstr("\n")))));
      EXPECT_LT(table.status().message().size(), path.size() + 1500);
    }
  }

  const std::string good_ = ReadFile(std::string(EMBEDDING_GOLDEN_TABLES) + "/" + GetParam());
  TempFolder folder_;
  WorkerPool pool_{1};
};

INSTANTIATE_TEST_SUITE_P(Files, MutationTest,
                         ::testing::Values("f32.safetensors", "bf16.safetensors", "f4.npy", "f8-big-endian.npy",
                                           "table.fbin", "i8.safetensors", "f8_e4m3.safetensors", "i1.npy",
                                           "table.i8bin", "table.fvecs", "table.bvecs", "gensim.bin", "gensim.vec",
                                           "gensim-glove.txt"),
                         [](const auto& i) {
                           std::string name = i.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST_P(MutationTest, OneChangedByteIsHandledAnywhere) {
  ASSERT_FALSE(good_.empty());
  for (size_t at = 0; at < good_.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string bytes = good_;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      LoadDamaged(bytes);
    }
  }
}

TEST_P(MutationTest, BytesPutInTakenOutOrRepeatedAreHandled) {
  std::mt19937 random(20261129);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  for (int round = 0; round < 600; ++round) {
    std::string bytes = good_;
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(bytes.size());
      const size_t length = 1 + below(8);
      switch (below(4)) {
        case 0:
          bytes.erase(at, length);
          break;
        case 1:
          bytes.insert(at, length, static_cast<char>(random()));
          break;
        case 2:
          bytes.insert(at, bytes.substr(below(bytes.size()), length));
          break;
        default:
          bytes.replace(at, length, std::to_string(random()).substr(0, length));
      }
      if (bytes.empty()) break;
    }
    LoadDamaged(bytes);
  }
}

}  // namespace
}  // namespace embedding
