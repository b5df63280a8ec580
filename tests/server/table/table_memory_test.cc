#include "server/table/table_memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/table/load_table.h"
#include "server/table/private_memory.h"
#include "server/table/quote.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

class TableMemoryTest : public ::testing::Test {
 protected:
  // Beside what other tests of the process may hold.
  void Allow(int64_t more_bytes) { SetTableMemoryLimit(TableMemoryUsed() + more_bytes); }
  void TearDown() override { SetTableMemoryLimit(0); }
};

TEST_F(TableMemoryTest, RowsCountUntilTheyAreFreed) {
  const int64_t before = TableMemoryUsed();
  absl::StatusOr<std::shared_ptr<std::byte>> rows = AllocatePrivate(5000);
  ASSERT_THAT(rows, Succeeds());
  EXPECT_EQ(TableMemoryUsed(), before + 5000);
  rows = absl::UnknownError("freed");
  EXPECT_EQ(TableMemoryUsed(), before);
}

TEST_F(TableMemoryTest, TheLimitIsTheLastByteThatFits) {
  Allow(5000);
  const int64_t used = TableMemoryUsed();
  {
    const absl::StatusOr<std::shared_ptr<std::byte>> fits = AllocatePrivate(5000);
    EXPECT_THAT(fits, Succeeds());
    const absl::StatusOr<std::shared_ptr<std::byte>> second = AllocatePrivate(1);
    EXPECT_EQ(OverBudgetOf(second.status())->used_bytes, used + 5000);
  }
  const absl::StatusOr<std::shared_ptr<std::byte>> over = AllocatePrivate(5001);
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(
      over.status().message(),
      absl::StrCat("needs 5001 bytes of memory beside the ", used, " bytes of tables in memory, allowed are ",
                   used + 5000, " together: raise --max-table-bytes (without it, the memory limit) or unload a table"));
  EXPECT_EQ(TableMemoryUsed(), used);
  const std::optional<OverBudget> numbers = OverBudgetOf(WithPath("words.npy", over.status()));
  ASSERT_TRUE(numbers.has_value());
  EXPECT_EQ(numbers->needed_bytes, 5001);
  EXPECT_EQ(numbers->used_bytes, used);
  EXPECT_EQ(numbers->allowed_bytes, used + 5000);
}

TEST_F(TableMemoryTest, OtherErrorsAreNotAboutTheLimit) {
  EXPECT_EQ(OverBudgetOf(absl::ResourceExhaustedError("no memory")), std::nullopt);
  EXPECT_EQ(OverBudgetOf(absl::OkStatus()), std::nullopt);
}

TEST_F(TableMemoryTest, WhatIsNotedCountsWithoutBeingRefused) {
  Allow(10);
  TableMemoryClaim claim = TableMemoryClaim::Note(20);
  EXPECT_EQ(TableMemoryClaim::Ask(1).status().code(), absl::StatusCode::kResourceExhausted);
  TableMemoryClaim moved = std::move(claim);
  claim = TableMemoryClaim();
  EXPECT_EQ(TableMemoryClaim::Ask(1).status().code(), absl::StatusCode::kResourceExhausted);
  moved = TableMemoryClaim();
  EXPECT_THAT(TableMemoryClaim::Ask(10), Succeeds());
}

// 4 rows x 1024 of float32: 16 KiB.
TEST_F(TableMemoryTest, ALoadOverTheLimitIsRefusedWithThePath) {
  const TempFolder folder;
  const std::string path = folder.Write("t.raw", std::string(16384, '\0'));
  absl::StatusOr<TableOptions> options = ParseTableOptions("t=" + path + ",format=raw,dtype=F32,dim=1024");
  ASSERT_THAT(options, Succeeds());
  WorkerPool pool(2);
  Allow(16383);
  EXPECT_THAT(LoadTable(*options, {}, pool),
              Fails(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("t.raw: needs 16384 bytes")));
  Allow(16384);
  EXPECT_THAT(LoadTable(*options, {}, pool), Succeeds());
}

TEST_F(TableMemoryTest, AStoppedLoadEndsCancelledAndGivesItsMemoryBack) {
  const TempFolder folder;
  const std::string path = folder.Write("t.raw", std::string(16384, '\0'));
  absl::StatusOr<TableOptions> options = ParseTableOptions("t=" + path + ",format=raw,dtype=F32,dim=1024");
  ASSERT_THAT(options, Succeeds());
  WorkerPool pool(2);
  const int64_t before = TableMemoryUsed();
  EXPECT_THAT(LoadTable(*options, {}, pool, LoadProgress(nullptr, [] { return true; })),
              Fails(absl::StatusCode::kCancelled, ::testing::HasSubstr("the load was stopped")));
  EXPECT_EQ(TableMemoryUsed(), before);
}

}  // namespace
}  // namespace embedding
