#include "server/service/snapshot.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/status_codec.h"

namespace embedding {
namespace {

SnapshotPtr TableNamed(const std::string& name, uint64_t version = 1) {
  const float value = 1;
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = name;
  snapshot->version = version;
  snapshot->table = TableFromMemory(name, Dtype::kF32, 1, 1, &value);
  return snapshot;
}

std::string Error(const absl::StatusOr<SnapshotPtr>& result) {
  if (result.ok()) return "OK";
  return absl::StatusCodeToString(result.status().code()) + " " + DetailsOf(result.status()).reason + ": " +
         std::string(result.status().message());
}

TEST(TableRegistryTest, EmptyNameIsTheOnlyTable) {
  TableRegistry registry({"words"});
  EXPECT_EQ(Error(registry.Acquire("", 0)), "UNAVAILABLE LOADING: no table loaded yet");
  EXPECT_FALSE(registry.all_loaded());
  registry.Publish(TableNamed("words"));
  EXPECT_TRUE(registry.all_loaded());
  for (const std::string name : {"", "words"}) {
    const absl::StatusOr<SnapshotPtr> table = registry.Acquire(name, 0);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ((*table)->name, "words");
  }
}

TEST(TableRegistryTest, EmptyNameAmongSeveralListsThem) {
  TableRegistry registry({"words", "items"});
  registry.Publish(TableNamed("words"));
  EXPECT_EQ(Error(registry.Acquire("", 0)),
            "INVALID_ARGUMENT INVALID_FIELD: table.name is empty, must name one of the 2 tables: \"words\", \"items\"");
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back("t" + std::to_string(i));
  EXPECT_EQ(Error(TableRegistry(names).Acquire("", 0)),
            "INVALID_ARGUMENT INVALID_FIELD: table.name is empty, must name one of the 12 tables: \"t0\", \"t1\", "
            "\"t2\", \"t3\", \"t4\", \"t5\", \"t6\", \"t7\", \"t8\", \"t9\" and 2 more");
}

TEST(TableRegistryTest, NamesThatDoNotExistAreNotFoundAtAnyTime) {
  TableRegistry registry({"words", "items"});
  const std::string want = "NOT_FOUND TABLE_NOT_FOUND: table \"other\" does not exist; tables: \"words\", \"items\"";
  EXPECT_EQ(Error(registry.Acquire("other", 0)), want);
  registry.Publish(TableNamed("words"));
  EXPECT_EQ(Error(registry.Acquire("other", 0)), want);
  EXPECT_EQ(Error(registry.Acquire("items", 0)), "UNAVAILABLE LOADING: table \"items\" is not loaded yet");
}

TEST(TableRegistryTest, MalformedNamesAreInvalid) {
  TableRegistry registry({"words"});
  registry.Publish(TableNamed("words"));
  EXPECT_EQ(Error(registry.Acquire("no/slash\n", 0)),
            "INVALID_ARGUMENT INVALID_FIELD: table.name is \"no/slash\\n\", must be [A-Za-z0-9_.-]{1,64}");
  EXPECT_EQ(registry.Acquire(std::string(65, 'x'), 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.Acquire(std::string(64, 'x'), 0).status().code(), absl::StatusCode::kNotFound);
}

TEST(TableRegistryTest, VersionsOtherThanTheServedOneAreNotFound) {
  TableRegistry registry({"words"});
  registry.Publish(TableNamed("words", 7));
  EXPECT_EQ(Error(registry.Acquire("words", 7)), "OK");
  EXPECT_EQ(Error(registry.Acquire("", 8)), "NOT_FOUND VERSION_NOT_FOUND: table \"words\" serves version 7, not 8");
}

TEST(TableRegistryTest, ShutdownEndsEveryAcquire) {
  TableRegistry registry({"words"});
  registry.Publish(TableNamed("words"));
  const SnapshotPtr held = *registry.Acquire("words", 0);
  registry.BeginShutdown();
  EXPECT_EQ(Error(registry.Acquire("words", 0)), "UNAVAILABLE SHUTTING_DOWN: server is shutting down");
  EXPECT_EQ(registry.List().status().message(), "server is shutting down");
  EXPECT_EQ(held->table->num_rows(), 1);  // what was taken stays
}

TEST(TableRegistryTest, ReadersSeeWholeSnapshotsWhileOthersArePublished) {
  TableRegistry registry({"words"});
  registry.Publish(TableNamed("words", 1));
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      uint64_t last = 0;
      while (!stop.load()) {
        const absl::StatusOr<SnapshotPtr> table = registry.Acquire("words", 0);
        ASSERT_TRUE(table.ok());
        EXPECT_GE((*table)->version, last);
        last = (*table)->version;
        EXPECT_EQ((*table)->table->num_rows(), 1);
      }
    });
  }
  for (uint64_t version = 2; version < 200; ++version) registry.Publish(TableNamed("words", version));
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace embedding
