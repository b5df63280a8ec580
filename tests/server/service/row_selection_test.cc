// What becomes of rows that do not exist, under each policy.
#include "server/service/row_selection.h"

#include <limits>

#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RowSelection IdsOf(std::vector<int64_t> ids) {
  RowSelection rows;
  rows.kind = RowSelection::Kind::kIds;
  rows.count = static_cast<int64_t>(ids.size());
  rows.ids = std::move(ids);
  return rows;
}

RowSelection KeysOf(std::vector<absl::string_view> keys) {
  RowSelection rows;
  rows.kind = RowSelection::Kind::kKeys;
  rows.count = static_cast<int64_t>(keys.size());
  rows.keys = std::move(keys);
  return rows;
}

struct Policy {
  const char* name;
  v1::MissingPolicy policy;
};

class MarkingPolicyTest : public ::testing::TestWithParam<Policy> {};

TEST_P(MarkingPolicyTest, MarksIdsFromTheCountOfRowsOn) {
  RowSelection rows = IdsOf({3, 4, 0, std::numeric_limits<int64_t>::max(), 4});
  int64_t num_missing = -1;
  ASSERT_TRUE(ResolveRows(rows, *ToyTable(), "", GetParam().policy, &num_missing).ok());
  EXPECT_THAT(rows.ids, ElementsAre(3, kMissingId, 0, kMissingId, kMissingId));
  EXPECT_THAT(rows.missing, ElementsAre(1, 3, 4));
  EXPECT_EQ(num_missing, 3);
}

TEST_P(MarkingPolicyTest, MarksKeysThatDoNotExist) {
  RowSelection rows = KeysOf({"tool", "", "robot", "Robot"});
  int64_t num_missing = -1;
  ASSERT_TRUE(ResolveRows(rows, *ToyTable(), "", GetParam().policy, &num_missing).ok());
  EXPECT_THAT(rows.ids, ElementsAre(3, kMissingId, 0, kMissingId));
  EXPECT_THAT(rows.missing, ElementsAre(1, 3));
  EXPECT_EQ(num_missing, 2);
}

TEST_P(MarkingPolicyTest, MarksNothingWhereAllExist) {
  RowSelection rows = IdsOf({0, 1, 2, 3});
  int64_t num_missing = -1;
  ASSERT_TRUE(ResolveRows(rows, *ToyTable(), "", GetParam().policy, &num_missing).ok());
  EXPECT_THAT(rows.missing, IsEmpty());
  EXPECT_EQ(num_missing, 0);
}

TEST_P(MarkingPolicyTest, NegativeIdsStayErrors) {
  RowSelection rows = IdsOf({9, 0, -1});
  int64_t num_missing = -1;
  const absl::Status status = ResolveRows(rows, *ToyTable(), "left.", GetParam().policy, &num_missing);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "left.ids[2]=-1, must be >= 0"));
  EXPECT_EQ(FieldOf(status), "left.rows.ids.values[2]");
  EXPECT_EQ(num_missing, 0);
}

TEST_P(MarkingPolicyTest, KeysOfATableWithoutKeysStayErrors) {
  RowSelection rows = KeysOf({"a"});
  EXPECT_THAT(
      ResolveRows(rows, *CountingTable("bare", 2, 1), "", GetParam().policy),
      IsError(StatusCode::kFailedPrecondition, "NO_KEYS", "table \"bare\" has no keys; load it with vocab=FILE"));
}

INSTANTIATE_TEST_SUITE_P(All, MarkingPolicyTest,
                         ::testing::Values(Policy{"Zero", v1::MISSING_POLICY_ZERO},
                                           Policy{"DefaultRow", v1::MISSING_POLICY_DEFAULT_ROW},
                                           Policy{"Skip", v1::MISSING_POLICY_SKIP}),
                         [](const auto& test) { return test.param.name; });

class FailingPolicyTest : public ::testing::TestWithParam<Policy> {};

TEST_P(FailingPolicyTest, TheFirstWrongElementDecides) {
  RowSelection rows = IdsOf({0, 4, -1, 5});
  int64_t num_missing = -1;
  EXPECT_THAT(ResolveRows(rows, *ToyTable(), "", GetParam().policy, &num_missing),
              IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "ids[1] is 4, table \"toy\" has 4 rows"));
  EXPECT_EQ(num_missing, 2);
  RowSelection keys = KeysOf({"robot", "x", "y"});
  EXPECT_THAT(ResolveRows(keys, *ToyTable(), "", GetParam().policy, &num_missing),
              IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                      "keys[1] \"x\" is not a key of table \"toy\"; 2 of 3 missing, at 1, 2"));
  EXPECT_EQ(num_missing, 2);
  EXPECT_THAT(keys.missing, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, FailingPolicyTest,
                         ::testing::Values(Policy{"Unspecified", v1::MISSING_POLICY_UNSPECIFIED},
                                           Policy{"Error", v1::MISSING_POLICY_ERROR}),
                         [](const auto& test) { return test.param.name; });

TEST(CheckMissingTest, TakesWhatTheRpcNamesAndUnset) {
  const auto check = [](int32_t policy) {
    return CheckMissing(policy, {v1::MISSING_POLICY_ERROR, v1::MISSING_POLICY_ZERO}, "missing");
  };
  EXPECT_TRUE(check(v1::MISSING_POLICY_UNSPECIFIED).ok());
  EXPECT_TRUE(check(v1::MISSING_POLICY_ERROR).ok());
  EXPECT_TRUE(check(v1::MISSING_POLICY_ZERO).ok());
  const absl::Status skip = check(v1::MISSING_POLICY_SKIP);
  EXPECT_THAT(skip, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                            "missing=MISSING_POLICY_SKIP (4), allowed: MISSING_POLICY_ERROR (1), MISSING_POLICY_ZERO "
                            "(2)"));
  EXPECT_EQ(FieldOf(skip), "missing");
  EXPECT_THAT(check(5), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                "missing=5, allowed: MISSING_POLICY_ERROR (1), MISSING_POLICY_ZERO (2)"));
  EXPECT_THAT(check(-1), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                 "missing=-1, allowed: MISSING_POLICY_ERROR (1), MISSING_POLICY_ZERO (2)"));
}

}  // namespace
}  // namespace embedding::testing
