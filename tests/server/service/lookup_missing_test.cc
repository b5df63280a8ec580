// Missing rows in Lookup, fewer columns and unit vectors, by examples.
#include <cmath>
#include <limits>

#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The toy table with its row 1, arm, as default row.
std::unique_ptr<EmbeddingTable> ToyTableWithDefault() {
  const float values[] = {1, 0, 1, .9f, .1f, .8f, 0, 1, 0, -1, 0, .5f};
  return TableFromMemory("toy", Dtype::kF32, 4, 3, values, {"robot", "arm", "box", "tool"}, 1);
}

class LookupMissingTest : public ::testing::Test {
 protected:
  static v1::LookupRequest Request(v1::MissingPolicy policy, const std::vector<int64_t>& ids,
                                   const std::vector<int64_t>& shape = {}) {
    v1::LookupRequest request;
    request.mutable_rows()->mutable_ids()->mutable_values()->Assign(ids.begin(), ids.end());
    request.mutable_rows()->mutable_ids()->mutable_shape()->Assign(shape.begin(), shape.end());
    request.set_missing(policy);
    return request;
  }

  v1::LookupResponse Ask(const v1::LookupRequest& request) {
    v1::LookupResponse response;
    EXPECT_EQ(services_.Lookup(request, &response), absl::OkStatus());
    return response;
  }

  absl::Status Refusal(const v1::LookupRequest& request) {
    v1::LookupResponse response;
    return services_.Lookup(request, &response);
  }

  Services services_{TablesOf(ToyTableWithDefault())};
};

TEST_F(LookupMissingTest, ZeroGivesRowsOfZeros) {
  const v1::LookupResponse response = Ask(Request(v1::MISSING_POLICY_ZERO, {9, 2, 4}));
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 0));
  EXPECT_THAT(response.missing_positions(), ElementsAre(0, 2));
}

TEST_F(LookupMissingTest, DefaultRowStandsForWhatIsMissing) {
  const v1::LookupResponse response = Ask(Request(v1::MISSING_POLICY_DEFAULT_ROW, {2, 4}, {2, 1}));
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(0, 1, 0, .9f, .1f, .8f));
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(2, 1, 3));
  EXPECT_THAT(response.missing_positions(), ElementsAre(1));
}

TEST_F(LookupMissingTest, SkipLeavesOutWhatIsMissing) {
  const v1::LookupResponse response = Ask(Request(v1::MISSING_POLICY_SKIP, {7, 2, 8, 9, 0}, {5}));
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(2, 3));
  EXPECT_THAT(response.missing_positions(), ElementsAre(0, 2, 3));
}

TEST_F(LookupMissingTest, SkipOfEverythingKeepsTheWidth) {
  const v1::LookupResponse response = Ask(Request(v1::MISSING_POLICY_SKIP, {4, 5}));
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(0, 3));
  EXPECT_THAT(response.embeddings().data(), IsEmpty());
  EXPECT_THAT(response.missing_positions(), ElementsAre(0, 1));
}

TEST_F(LookupMissingTest, KeysAreMissingAsIdsAre) {
  v1::LookupRequest request;
  for (const char* key : {"arm", "ARM", "box"}) request.mutable_rows()->mutable_keys()->add_values(key);
  request.set_missing(v1::MISSING_POLICY_ZERO);
  const v1::LookupResponse response = Ask(request);
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(.9f, .1f, .8f, 0, 0, 0, 0, 1, 0));
  EXPECT_THAT(response.missing_positions(), ElementsAre(1));
}

TEST_F(LookupMissingTest, CountsWhatIsMissing) {
  Ask(Request(v1::MISSING_POLICY_ZERO, {9, 2, 4}));
  EXPECT_EQ(MetricValue(services_.metrics, "embedding_rows_total", {{"grpc_method", "Lookup"}, {"result", "miss"}}), 2);
  EXPECT_EQ(MetricValue(services_.metrics, "embedding_rows_total", {{"grpc_method", "Lookup"}, {"result", "hit"}}), 1);
}

TEST_F(LookupMissingTest, NegativeIdsAreErrorsUnderEveryPolicy) {
  for (int policy = 0; policy <= 4; ++policy) {
    EXPECT_THAT(Refusal(Request(static_cast<v1::MissingPolicy>(policy), {0, -1})),
                IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "ids[1]=-1, must be >= 0"));
  }
}

TEST_F(LookupMissingTest, SkipNeedsOneDimensionUnlessItPools) {
  const absl::Status status = Refusal(Request(v1::MISSING_POLICY_SKIP, {0, 1}, {1, 2}));
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                              "missing=MISSING_POLICY_SKIP needs ids of one dimension, ids.shape has 2"));
  EXPECT_EQ(FieldOf(status), "missing");
  v1::LookupRequest pooled = Request(v1::MISSING_POLICY_SKIP, {0, 9}, {1, 2});
  pooled.mutable_pooling();
  EXPECT_THAT(FloatsOf(Ask(pooled).embeddings()), ElementsAre(1, 0, 1));
}

TEST_F(LookupMissingTest, RefusesPoliciesThatDoNotExist) {
  EXPECT_THAT(Refusal(Request(static_cast<v1::MissingPolicy>(5), {0})),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "missing=5, allowed: MISSING_POLICY_ERROR (1), MISSING_POLICY_ZERO (2), "
                      "MISSING_POLICY_DEFAULT_ROW (3), MISSING_POLICY_SKIP (4)"));
}

TEST_F(LookupMissingTest, DefaultRowNeedsATableThatHasOne) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  // Whether something is missing or not: what a request means does not hang on its ids.
  EXPECT_THAT(services.Lookup(Request(v1::MISSING_POLICY_DEFAULT_ROW, {0}), &response),
              IsError(StatusCode::kFailedPrecondition, "NO_DEFAULT_ROW",
                      "table \"toy\" has no default row; load it with default-row=ROW"));
}

TEST_F(LookupMissingTest, TheLimitOnAnswersCountsWhatIsKept) {
  RequestLimits limits;
  limits.max_response_bytes = 200;
  Services services(TablesOf(CountingTable("wide", 3, 10)), limits);
  v1::LookupResponse response;
  // Three rows of 40 bytes fit beside the stamp, four do not.
  EXPECT_EQ(services.Lookup(Request(v1::MISSING_POLICY_SKIP, {0, 9, 9, 9, 1, 9, 2}), &response), absl::OkStatus());
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(3, 10));
  const absl::Status status = services.Lookup(Request(v1::MISSING_POLICY_SKIP, {0, 9, 1, 2, 0}), &response);
  EXPECT_EQ(DetailsOf(status).reason, "LIMIT_EXCEEDED") << status;
  EXPECT_EQ(DetailsOf(services.Lookup(Request(v1::MISSING_POLICY_ZERO, {0, 9, 1, 2}), &response)).reason,
            "LIMIT_EXCEEDED");
}

TEST_F(LookupMissingTest, DimensionsGiveTheFirstColumnsAsStored) {
  v1::LookupRequest request = Request(v1::MISSING_POLICY_ZERO, {1, 9, 3});
  request.set_dimensions(2);
  const v1::LookupResponse response = Ask(request);
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(3, 2));
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(.9f, .1f, 0, 0, -1, 0));
  request.set_dimensions(3);
  EXPECT_THAT(ShapeOf(Ask(request).embeddings()), ElementsAre(3, 3));
}

TEST_F(LookupMissingTest, DimensionsStayWithinTheTable) {
  v1::LookupRequest request = Request(v1::MISSING_POLICY_ERROR, {1});
  request.set_dimensions(4);
  EXPECT_THAT(Refusal(request),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "dimensions=4, table \"toy\" is 3 wide"));
  request.set_dimensions(-1);
  EXPECT_THAT(Refusal(request), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "dimensions=-1, must be >= 0"));
}

TEST_F(LookupMissingTest, NormalizeGivesUnitVectorsAndLeavesZerosAlone) {
  v1::LookupRequest request = Request(v1::MISSING_POLICY_ZERO, {0, 9, 3});
  request.set_normalize(true);
  const float half = static_cast<float>(1 / std::sqrt(2.0));
  const float fifth = static_cast<float>(1 / std::sqrt(1.25));
  EXPECT_THAT(FloatsOf(Ask(request).embeddings()),
              ElementsAre(half, 0, half, 0, 0, 0, -fifth, 0, static_cast<float>(0.5 / std::sqrt(1.25))));
  // Of the columns that are left, not of the whole row.
  request.set_dimensions(1);
  EXPECT_THAT(FloatsOf(Ask(request).embeddings()), ElementsAre(1, 0, -1));
}

TEST_F(LookupMissingTest, UnitVectorsOfTheSmallestAndLargestNumbers) {
  const float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  Services services(TablesOf(FloatTable("edges", 2, {tiny, 0, huge, huge})));
  v1::LookupRequest request = Request(v1::MISSING_POLICY_ERROR, {0, 1});
  request.set_normalize(true);
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  const float half = static_cast<float>(1 / std::sqrt(2.0));
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(1, 0, half, half));
}

TEST_F(LookupMissingTest, ComputedVectorsAreF32UnlessAskedOtherwise) {
  const uint16_t bits[] = {0x3C00, 0x0000};  // 1, 0
  Services services(TablesOf(TableFromMemory("half", Dtype::kF16, 1, 2, bits)));
  v1::LookupResponse response;
  v1::LookupRequest request = Request(v1::MISSING_POLICY_ERROR, {0});
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_EQ(response.embeddings().dtype(), v1::DTYPE_F16);
  request.set_normalize(true);
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_EQ(response.embeddings().dtype(), v1::DTYPE_F32);
  request.set_output_dtype(v1::DTYPE_BF16);
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_EQ(response.embeddings().dtype(), v1::DTYPE_BF16);
  EXPECT_EQ(response.embeddings().data(), RawBytes(std::vector<uint16_t>{0x3F80, 0}));
}

TEST_F(LookupMissingTest, NothingIsComputedFromRowsThatAreNotFinite) {
  Services services(TablesOf(FloatTable("holes", 1, {1, NAN, INFINITY})));
  v1::LookupResponse response;
  v1::LookupRequest request = Request(v1::MISSING_POLICY_ZERO, {0, 9, 2});
  EXPECT_EQ(services.Lookup(request, &response), absl::OkStatus());  // bits are bits
  request.set_normalize(true);
  const std::string message =
      "ids[2] is row 2 of table \"holes\", which holds NaN or infinity and cannot be pooled or normalised";
  EXPECT_THAT(services.Lookup(request, &response), IsError(StatusCode::kFailedPrecondition, "NON_FINITE_ROW", message));
  request.set_normalize(false);
  request.mutable_pooling()->add_offsets(0);
  EXPECT_THAT(services.Lookup(request, &response), IsError(StatusCode::kFailedPrecondition, "NON_FINITE_ROW", message));
  // Padding takes no part.
  request.mutable_pooling()->set_padding_id(2);
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(1));
}

}  // namespace
}  // namespace embedding::testing
