#include "server/service/snapshot.h"

#include <atomic>
#include <optional>
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

std::string Error(const absl::Status& status) {
  if (status.ok()) return "OK";
  return absl::StatusCodeToString(status.code()) + " " + DetailsOf(status).reason + ": " +
         std::string(status.message());
}
std::string Error(const absl::StatusOr<SnapshotPtr>& result) { return Error(result.status()); }

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

// "6 AVAILABLE, 7 FAILED no memory": what Describe tells.
std::string VersionsOf(const TableRegistry& registry) {
  const absl::StatusOr<TableRecord> record = registry.Describe("words", 0);
  if (!record.ok()) return Error(record.status());
  static constexpr const char* kStates[] = {"LOADING", "AVAILABLE", "DRAINING", "FAILED"};
  std::string text;
  for (const VersionInfo& known : record->versions) {
    if (!text.empty()) text += ", ";
    text += std::to_string(known.version) + " " + kStates[static_cast<size_t>(known.state)];
    if (!known.reason.empty()) text += " " + known.reason;
  }
  return text + "; serves " + std::to_string(record->serving_version);
}

TEST(TableRegistryTest, VersionsThatAreKeptAnswerWhoAsksForThem) {
  TableRegistry registry({"words"}, /*keep_versions=*/2);
  for (uint64_t version = 1; version <= 3; ++version) registry.Publish(TableNamed("words", version));
  EXPECT_EQ((*registry.Acquire("words", 0))->version, 3u);
  EXPECT_EQ((*registry.Acquire("words", 2))->version, 2u);
  EXPECT_EQ(Error(registry.Acquire("words", 1)),
            "NOT_FOUND VERSION_NOT_FOUND: table \"words\" serves version 3, not 1; in memory: 2, 3");
  EXPECT_EQ(VersionsOf(registry), "2 AVAILABLE, 3 AVAILABLE; serves 3");
}

TEST(TableRegistryTest, OneVersionIsKeptWhereOneIsAskedFor) {
  TableRegistry registry({"words"}, /*keep_versions=*/1);
  for (uint64_t version = 1; version <= 2; ++version) registry.Publish(TableNamed("words", version));
  EXPECT_EQ(VersionsOf(registry), "2 AVAILABLE; serves 2");
}

TEST(TableRegistryTest, DroppedVersionsDrainWhileACallUsesThem) {
  TableRegistry registry({"words"}, /*keep_versions=*/1);
  registry.Publish(TableNamed("words", 1));
  SnapshotPtr call = *registry.Acquire("words", 0);
  registry.Publish(TableNamed("words", 2));
  EXPECT_EQ(VersionsOf(registry), "1 DRAINING, 2 AVAILABLE; serves 2");
  EXPECT_EQ(call->table->num_rows(), 1);
  call.reset();
  EXPECT_EQ(VersionsOf(registry), "2 AVAILABLE; serves 2");
}

TEST(TableRegistryTest, RollBackServesAVersionInMemory) {
  TableRegistry registry({"words"}, /*keep_versions=*/2);
  for (uint64_t version = 1; version <= 3; ++version) registry.Publish(TableNamed("words", version));
  EXPECT_EQ((*registry.SetServing("words", 2))->version, 2u);
  EXPECT_EQ(VersionsOf(registry), "2 AVAILABLE, 3 AVAILABLE; serves 2");
  EXPECT_EQ(Error(registry.SetServing("words", 1)),
            "NOT_FOUND VERSION_NOT_FOUND: table \"words\" serves version 2, not 1; in memory: 2, 3");
  EXPECT_EQ(Error(registry.SetServing("items", 1)),
            "NOT_FOUND TABLE_NOT_FOUND: table \"items\" does not exist; tables: \"words\"");
}

// Who rolled back found version 3 wanting: it is version 2 that is worth keeping beside the new one.
TEST(TableRegistryTest, AfterARollBackTheVersionThatServedIsKept) {
  TableRegistry registry({"words"}, /*keep_versions=*/2);
  for (uint64_t version = 1; version <= 3; ++version) registry.Publish(TableNamed("words", version));
  ASSERT_TRUE(registry.SetServing("words", 2).ok());
  registry.Publish(TableNamed("words", 4));
  EXPECT_EQ(VersionsOf(registry), "2 AVAILABLE, 4 AVAILABLE; serves 4");
}

TEST(TableRegistryTest, ASnapshotTakesThePlaceOfOneWithItsVersion) {
  TableRegistry registry({"words"});
  registry.Publish(TableNamed("words", 7));
  const SnapshotPtr replacement = TableNamed("words", 7);
  registry.Publish(replacement);
  EXPECT_EQ(*registry.Acquire("words", 7), replacement);
  EXPECT_EQ(VersionsOf(registry), "7 AVAILABLE; serves 7");
}

TEST(TableRegistryTest, OnlyVersionsThatDoNotServeCanBeDropped) {
  TableRegistry registry({"words"});
  for (uint64_t version = 1; version <= 2; ++version) registry.Publish(TableNamed("words", version));
  EXPECT_EQ(Error(registry.Drop("words", 2)),
            "FAILED_PRECONDITION VERSION_SERVING: version 2 of table \"words\" is the serving one: serve another "
            "first, or unload the whole table with version 0");
  EXPECT_EQ(registry.Idle("words").size(), 1u);
  EXPECT_EQ(registry.Drop("words", 1), absl::OkStatus());
  EXPECT_EQ(registry.Idle("words").size(), 0u);
  EXPECT_EQ(Error(registry.Drop("words", 1)), "NOT_FOUND VERSION_NOT_FOUND: table \"words\" serves version 2, not 1");
  EXPECT_EQ(Error(registry.Drop("items", 1)),
            "NOT_FOUND TABLE_NOT_FOUND: table \"items\" does not exist; tables: \"words\"");
}

TEST(TableRegistryTest, NewNamesAppearAndRemovedOnesAreGone) {
  TableRegistry registry({"words"});
  registry.Publish(TableNamed("words"));
  registry.Publish(TableNamed("items"));
  EXPECT_TRUE(registry.all_loaded());
  EXPECT_EQ(Error(registry.Acquire("", 0)),
            "INVALID_ARGUMENT INVALID_FIELD: table.name is empty, must name one of the 2 tables: \"words\", \"items\"");
  EXPECT_EQ(registry.Remove("words"), absl::OkStatus());
  EXPECT_EQ((*registry.Acquire("", 0))->name, "items");
  EXPECT_EQ(Error(registry.Acquire("words", 0)),
            "NOT_FOUND TABLE_NOT_FOUND: table \"words\" does not exist; tables: \"items\"");
  EXPECT_EQ(registry.List()->size(), 1u);
  EXPECT_EQ(registry.Remove("items"), absl::OkStatus());
  EXPECT_EQ(Error(registry.Acquire("", 0)), "NOT_FOUND TABLE_NOT_FOUND: no table is served");
  EXPECT_EQ(Error(registry.Remove("items")), "NOT_FOUND TABLE_NOT_FOUND: no table is served");
  EXPECT_EQ(registry.List()->size(), 0u);
}

TEST(TableRegistryTest, ToldLoadsAndRefusalsStandBesideTheVersionsInMemory) {
  TableRegistry registry({"words"});
  registry.SetLoading("words", 1);  // not loaded yet: nothing to stand beside
  registry.Publish(TableNamed("words", 1));
  EXPECT_EQ(VersionsOf(registry), "1 AVAILABLE; serves 1");
  registry.SetLoading("words", 2);
  EXPECT_EQ(VersionsOf(registry), "1 AVAILABLE, 2 LOADING; serves 1");
  registry.SetLoading("words", std::nullopt);
  registry.SetFailed("words", VersionInfo{2, VersionState::kFailed, "bad"});
  EXPECT_EQ(VersionsOf(registry), "1 AVAILABLE, 2 FAILED bad; serves 1");
  registry.SetFailed("words", std::nullopt);
  EXPECT_EQ(VersionsOf(registry), "1 AVAILABLE; serves 1");
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
