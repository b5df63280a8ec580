#include "server/table/embedding_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace embedding {
namespace {

using ::testing::ElementsAre;

TEST(EmbeddingTableTest, TellsRowsKeysAndWhatIsKnownOfThem) {
  const float kRows[3][2] = {{1, 2}, {-0.0f, 0}, {std::numeric_limits<float>::quiet_NaN(), 3}};
  const auto table = TableFromMemory("t", Dtype::kF32, 3, 2, kRows, {"a", "b", "c"});
  EXPECT_EQ(table->name(), "t");
  EXPECT_EQ(table->num_rows(), 3);
  EXPECT_EQ(table->dim(), 2);
  EXPECT_EQ(table->row_bytes(), 8u);
  EXPECT_EQ(table->size_bytes(), 24);
  EXPECT_EQ(std::memcmp(table->rows(), kRows, sizeof(kRows)), 0);
  EXPECT_EQ(table->row(2), table->rows() + 16);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(table->rows()) % 64, 0u);
  EXPECT_EQ(table->zero_rows(), 1);
  EXPECT_THAT(table->non_finite_rows(), ElementsAre(2));
  EXPECT_TRUE(table->IsFinite(0));
  EXPECT_FALSE(table->IsFinite(2));
  EXPECT_EQ(table->vocabulary()->Find("b"), 1);
}

TEST(EmbeddingTableTest, ATableWithoutKeysHasNoVocabulary) {
  const uint16_t kRow[3] = {0x3C00, 0, 0x8000};
  const auto table = TableFromMemory("t", Dtype::kF16, 1, 3, kRow);
  EXPECT_EQ(table->vocabulary(), nullptr);
  EXPECT_EQ(table->row_bytes(), 6u);
}

}  // namespace
}  // namespace embedding
