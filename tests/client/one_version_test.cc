#include "client/one_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status_codec.h"

namespace embedding::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const absl::Status kVersionGone = ErrorWithDetails(absl::StatusCode::kNotFound, "version 1 is not served",
                                                   {.reason = "VERSION_NOT_FOUND", .metadata = {}, .violations = {}});

TableStamp Stamp(uint64_t version, const std::string& fingerprint = "aa") { return {"words", version, fingerprint}; }

// Answers in turn from a script; notes what was asked as "part@version".
struct FakeParts {
  std::vector<absl::StatusOr<TableStamp>> answers;
  std::vector<std::string> asked;

  absl::StatusOr<TableStamp> operator()(size_t index, const TableRef& table) {
    asked.push_back(absl::StrCat(index, "@", table.name, table.version));
    return answers.at(asked.size() - 1);
  }
};

TEST(OneVersionTest, PartsAfterTheFirstAskForItsVersion) {
  FakeParts parts{{Stamp(7), Stamp(7), Stamp(7)}, {}};
  EXPECT_EQ(*SendToOneVersion({}, 3, std::ref(parts)), Stamp(7));
  EXPECT_THAT(parts.asked, ElementsAre("0@0", "1@words7", "2@words7"));
}

TEST(OneVersionTest, StartsOverWhenTheVersionIsGone) {
  FakeParts parts{{Stamp(1), kVersionGone, Stamp(2), Stamp(2)}, {}};
  EXPECT_EQ(*SendToOneVersion({"words", 0}, 2, std::ref(parts)), Stamp(2));
  EXPECT_THAT(parts.asked, ElementsAre("0@words0", "1@words1", "0@words0", "1@words2"));
}

TEST(OneVersionTest, StartsOverWhenAReplicaHoldsAnotherTable) {
  FakeParts parts{{Stamp(1, "aa"), Stamp(1, "bb"), Stamp(1, "bb"), Stamp(1, "bb")}, {}};
  EXPECT_EQ(*SendToOneVersion({"words", 0}, 2, std::ref(parts)), Stamp(1, "bb"));
}

TEST(OneVersionTest, AbortsAfterFourStarts) {
  FakeParts parts;
  for (int start = 0; start < 4; ++start) {
    parts.answers.push_back(Stamp(1, "aa"));
    parts.answers.push_back(Stamp(1, "bb"));
  }
  const absl::Status status = SendToOneVersion({"words", 0}, 2, std::ref(parts)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 1 (fingerprint aa) and version 1 (fingerprint bb)"));
  EXPECT_EQ(parts.asked.size(), 8u);
}

TEST(OneVersionTest, AVersionThatTheCallerAskedForIsNotExchanged) {
  FakeParts parts{{Stamp(1), kVersionGone}, {}};
  EXPECT_EQ(SendToOneVersion({"words", 1}, 2, std::ref(parts)).status(), kVersionGone);
  EXPECT_EQ(parts.asked.size(), 2u);
}

TEST(OneVersionTest, OtherErrorsEndTheCall) {
  FakeParts parts{{Stamp(1), absl::OutOfRangeError("ids[3]")}, {}};
  EXPECT_EQ(SendToOneVersion({}, 3, std::ref(parts)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(parts.asked.size(), 2u);
}

}  // namespace
}  // namespace embedding::client
