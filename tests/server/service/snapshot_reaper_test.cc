#include "server/service/snapshot_reaper.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace embedding {
namespace {

// A snapshot whose rows note the thread that frees them.
std::unique_ptr<Snapshot> Watched(std::atomic<int>* freed, std::thread::id* by = nullptr) {
  static const std::byte kRow[4] = {};
  EmbeddingTable::Parts parts;
  parts.num_rows = 1;
  parts.dim = 1;
  parts.rows = std::shared_ptr<const std::byte>(kRow, [freed, by](const std::byte*) {
    if (by != nullptr) *by = std::this_thread::get_id();
    freed->fetch_add(1);
  });
  auto snapshot = std::make_unique<Snapshot>();
  snapshot->table = std::make_unique<EmbeddingTable>(std::move(parts));
  return snapshot;
}

TEST(SnapshotReaperTest, TheLastUserDoesNotFree) {
  SnapshotReaper reaper;
  std::atomic<int> freed{0};
  std::thread::id by;
  SnapshotPtr snapshot = reaper.Own(Watched(&freed, &by));
  SnapshotPtr user = snapshot;
  snapshot.reset();
  reaper.AwaitIdle();
  EXPECT_EQ(freed, 0);
  user.reset();
  reaper.AwaitIdle();
  EXPECT_EQ(freed, 1);
  EXPECT_NE(by, std::this_thread::get_id());
}

TEST(SnapshotReaperTest, FreesAllThatWasHandedOverBeforeItEnds) {
  std::atomic<int> freed{0};
  {
    SnapshotReaper reaper;
    std::vector<std::thread> users;
    for (int i = 0; i < 4; ++i) {
      users.emplace_back([&] {
        for (int j = 0; j < 50; ++j) reaper.Own(Watched(&freed));
      });
    }
    for (std::thread& user : users) user.join();
  }
  EXPECT_EQ(freed, 200);
}

TEST(SnapshotReaperTest, WhatFallsAfterItsEndIsFreedWhereItFalls) {
  std::atomic<int> freed{0};
  std::thread::id by;
  SnapshotPtr late;
  {
    SnapshotReaper reaper;
    late = reaper.Own(Watched(&freed, &by));
  }
  EXPECT_EQ(freed, 0);
  late.reset();
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(by, std::this_thread::get_id());
}

}  // namespace
}  // namespace embedding
