// Pooling in Lookup: what is refused, with the whole message; limits; long work on the pool. Values:
// pooling_golden_test.
#include <cfloat>
#include <cmath>

#include "google/protobuf/text_format.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::LookupRequest FromText(const std::string& text) {
  v1::LookupRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

struct Refusal {
  const char* name;
  const char* request;
  const char* path;
  const char* message;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class PoolingRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(PoolingRefusalTest, NamesFieldValueAndBound) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  const absl::Status status = services.Lookup(FromText(GetParam().request), &response);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", GetParam().message));
  EXPECT_EQ(FieldOf(status), GetParam().path);
}

INSTANTIATE_TEST_SUITE_P(
    All, PoolingRefusalTest,
    ::testing::Values(
        Refusal{"NoOffsets", "rows { ids { values: [0, 1] } } pooling { }", "pooling.offsets",
                "pooling.offsets is empty, ids has 2 entries of one dimension and needs where each bag begins"},
        Refusal{"FirstIsNotZero", "rows { ids { values: [0, 1] } } pooling { offsets: [1] }", "pooling.offsets[0]",
                "pooling.offsets[0]=1, must be 0"},
        Refusal{"Negative", "rows { ids { values: [0, 1] } } pooling { offsets: [0, -1] }", "pooling.offsets[1]",
                "pooling.offsets[1]=-1, must be at least 0, the one before it"},
        Refusal{"Falling", "rows { ids { values: [0, 1] } } pooling { offsets: [0, 2, 1] }", "pooling.offsets[2]",
                "pooling.offsets[2]=1, must be at least 2, the one before it"},
        Refusal{"BeyondTheEnd", "rows { ids { values: [0, 1] } } pooling { offsets: [0, 3] }", "pooling.offsets[1]",
                "pooling.offsets[1]=3, must be at most 2, the entries of ids"},
        Refusal{"LastIsNotTheEnd",
                "rows { ids { values: [0, 1] } } pooling { offsets: [0, 1] include_last_offset: true }",
                "pooling.offsets[1]", "pooling.offsets[1]=1, must be 2, the entries of ids, with include_last_offset"},
        Refusal{"OffsetsWithTwoDimensions", "rows { ids { values: [0, 1] shape: [2, 1] } } pooling { offsets: [0, 1] }",
                "pooling.offsets", "pooling.offsets has 2 entries, ids of shape [2, 1] are 2 bags and take none"},
        Refusal{"LastOffsetWithTwoDimensions",
                "rows { ids { values: [0, 1] shape: [2, 1] } } pooling { include_last_offset: true }",
                "pooling.include_last_offset",
                "pooling.include_last_offset is set, ids of shape [2, 1] are 2 bags and take no offsets"},
        Refusal{"ThreeDimensions", "rows { ids { values: [0, 1] shape: [1, 2, 1] } } pooling { }", "rows.ids.shape",
                "ids.shape has 3 dimensions, pooling takes 1 (with offsets) or 2 (bags, ids of a bag)"},
        Refusal{"WeightsWithMean",
                "rows { ids { values: [0] } } pooling { mode: POOLING_MODE_MEAN offsets: 0 weights: 1 }",
                "pooling.weights",
                "pooling.weights has 1 entries, POOLING_MODE_MEAN takes none: only POOLING_MODE_SUM does"},
        Refusal{"TooFewWeights", "rows { ids { values: [0, 1] } } pooling { offsets: 0 weights: 1 }", "pooling.weights",
                "pooling.weights has 1 entries, ids has 2"},
        Refusal{"WeightThatIsNan", "rows { ids { values: [0, 1] } } pooling { offsets: 0 weights: [1, nan] }",
                "pooling.weights[1]", "pooling.weights[1] is NaN, must be finite"},
        Refusal{"InfiniteWeight", "rows { ids { values: [0, 1] } } pooling { offsets: 0 weights: [-inf, 1] }",
                "pooling.weights[0]", "pooling.weights[0] is -Infinity, must be finite"},
        Refusal{"NegativePadding", "rows { ids { values: [0] } } pooling { offsets: 0 padding_id: -1 }",
                "pooling.padding_id", "pooling.padding_id=-1, must be >= 0"},
        Refusal{"OwnIntegerDtype", "rows { ids { values: [0] } } pooling { offsets: 0 } output_dtype: DTYPE_I8",
                "output_dtype",
                "output_dtype=DTYPE_I8, allowed: DTYPE_UNSPECIFIED (0), DTYPE_F32 (1), DTYPE_F16 (2), DTYPE_BF16 "
                "(3)"}),
    [](const auto& test) { return test.param.name; });

class LookupPoolingTest : public ::testing::Test {
 protected:
  absl::Status Lookup(const std::string& text) { return services_.Lookup(FromText(text), &response_); }

  Services services_{TablesOf(ToyTable())};
  v1::LookupResponse response_;
};

TEST_F(LookupPoolingTest, NamesModesThatDoNotExist) {
  v1::LookupRequest request = FromText("rows { ids { values: [0] } } pooling { offsets: 0 }");
  request.mutable_pooling()->set_mode(static_cast<v1::PoolingMode>(4));
  EXPECT_THAT(services_.Lookup(request, &response_),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "pooling.mode=4, allowed: POOLING_MODE_UNSPECIFIED (0), POOLING_MODE_SUM (1), POOLING_MODE_MEAN "
                      "(2), POOLING_MODE_MAX (3)"));
}

TEST_F(LookupPoolingTest, PaddingIsARowOfTheTable) {
  EXPECT_EQ(Lookup("rows { ids { values: [0] } } pooling { offsets: 0 padding_id: 3 }"), absl::OkStatus());
  const absl::Status status = Lookup("rows { ids { values: [0] } } pooling { offsets: 0 padding_id: 4 }");
  EXPECT_THAT(status,
              IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "pooling.padding_id is 4, table \"toy\" has 4 rows"));
  EXPECT_EQ(FieldOf(status), "pooling.padding_id");
}

TEST_F(LookupPoolingTest, NoIdsAndNoOffsetsAreNoBags) {
  ASSERT_EQ(Lookup("rows { ids { } } pooling { }"), absl::OkStatus());
  EXPECT_THAT(ShapeOf(response_.embeddings()), ElementsAre(0, 3));
  ASSERT_EQ(Lookup("rows { ids { } } pooling { offsets: [0] include_last_offset: true }"), absl::OkStatus());
  EXPECT_THAT(ShapeOf(response_.embeddings()), ElementsAre(0, 3));
}

TEST_F(LookupPoolingTest, BagsWithoutIdsAreZeros) {
  ASSERT_EQ(Lookup("rows { ids { shape: [2, 0] } } pooling { mode: POOLING_MODE_MAX }"), absl::OkStatus());
  EXPECT_THAT(ShapeOf(response_.embeddings()), ElementsAre(2, 3));
  EXPECT_THAT(FloatsOf(response_.embeddings()), Each(0));
}

TEST_F(LookupPoolingTest, SkippedRowsLeaveTheMeanAndZerosDoNot) {
  ASSERT_EQ(Lookup("rows { ids { values: [0, 9] } } pooling { mode: POOLING_MODE_MEAN offsets: 0 } "
                   "missing: MISSING_POLICY_SKIP"),
            absl::OkStatus());
  EXPECT_THAT(FloatsOf(response_.embeddings()), ElementsAre(1, 0, 1));
  EXPECT_THAT(response_.missing_positions(), ElementsAre(1));
  ASSERT_EQ(Lookup("rows { ids { values: [0, 9] } } pooling { mode: POOLING_MODE_MEAN offsets: 0 } "
                   "missing: MISSING_POLICY_ZERO"),
            absl::OkStatus());
  EXPECT_THAT(FloatsOf(response_.embeddings()), ElementsAre(.5f, 0, .5f));
}

TEST_F(LookupPoolingTest, ZerosTakePartInTheMaximum) {
  ASSERT_EQ(Lookup("rows { ids { values: [3, 9] } } pooling { mode: POOLING_MODE_MAX offsets: 0 } "
                   "missing: MISSING_POLICY_ZERO"),
            absl::OkStatus());
  EXPECT_THAT(FloatsOf(response_.embeddings()), ElementsAre(0, 0, .5f));
}

TEST_F(LookupPoolingTest, PaddingIsNotMissing) {
  ASSERT_EQ(Lookup("rows { keys { values: [\"arm\", \"none\", \"box\"] } } pooling { offsets: 0 padding_id: 1 } "
                   "missing: MISSING_POLICY_SKIP"),
            absl::OkStatus());
  EXPECT_THAT(FloatsOf(response_.embeddings()), ElementsAre(0, 1, 0));
  EXPECT_THAT(response_.missing_positions(), ElementsAre(1));
}

TEST_F(LookupPoolingTest, TheDefaultRowTakesPartEvenIfItIsThePadding) {
  const float values[] = {1, 2};
  Services services(TablesOf(TableFromMemory("two", Dtype::kF32, 2, 1, values, {}, 0)));
  const v1::LookupRequest request = FromText(
      "rows { ids { values: [0, 5, 1] } } pooling { mode: POOLING_MODE_MEAN offsets: 0 padding_id: 0 } "
      "missing: MISSING_POLICY_DEFAULT_ROW");
  ASSERT_EQ(services.Lookup(request, &response_), absl::OkStatus());
  EXPECT_THAT(FloatsOf(response_.embeddings()), ElementsAre(1.5f));
}

TEST_F(LookupPoolingTest, PoolsThenCutsThenNormalises) {
  ASSERT_EQ(Lookup("rows { ids { values: [0, 2, 3, 3] } } pooling { offsets: [0, 2] } dimensions: 2 normalize: true "
                   "encoding: ENCODING_FLOATS"),
            absl::OkStatus());
  const float half = static_cast<float>(1 / std::sqrt(2.0));
  EXPECT_THAT(FloatsOf(response_.embeddings()), ElementsAre(half, half, -1, 0));
  EXPECT_THAT(ShapeOf(response_.embeddings()), ElementsAre(2, 2));
}

TEST_F(LookupPoolingTest, SumsOfLargeAndSmallNumbersKeepTheSmallOnes) {
  // In float32 the ones would vanish beside 1e8, whatever the order.
  Services services(TablesOf(FloatTable("sizes", 1, {1e8f, 1, -1e8f})));
  ASSERT_EQ(services.Lookup(FromText("rows { ids { values: [0, 1, 1, 1, 2] } } pooling { offsets: 0 }"), &response_),
            absl::OkStatus());
  EXPECT_THAT(FloatsOf(response_.embeddings()), ElementsAre(3));
}

TEST_F(LookupPoolingTest, SumsBeyondTheDtypeAreRefused) {
  Services services(TablesOf(FloatTable("huge", 2, {0, FLT_MAX, 0, 60000})));
  const absl::Status f32 =
      services.Lookup(FromText("rows { ids { values: [1, 0, 0] } } pooling { offsets: [0, 1] }"), &response_);
  EXPECT_THAT(f32, IsError(StatusCode::kOutOfRange, "VALUE_OUT_OF_RANGE",
                           "bag 1, its column 1 is 6.80564693e+38, DTYPE_F32 ends at +-3.40282347e+38"));
  EXPECT_EQ(FieldOf(f32), "output_dtype");
  EXPECT_THAT(
      services.Lookup(FromText("rows { ids { values: [1, 1] } } pooling { offsets: 0 } output_dtype: DTYPE_F16"),
                      &response_),
      IsError(StatusCode::kOutOfRange, "VALUE_OUT_OF_RANGE",
              "bag 0, its column 1 is 120000, DTYPE_F16 ends at +-65504"));
}

TEST_F(LookupPoolingTest, BagsAreLimitedAsIdsAre) {
  RequestLimits limits;
  limits.max_ids = 4;
  Services services(TablesOf(ToyTable()), limits);
  const auto lookup = [&](const std::string& text) { return services.Lookup(FromText(text), &response_); };
  EXPECT_EQ(lookup("rows { ids { } } pooling { offsets: [0, 0, 0, 0] }"), absl::OkStatus());
  EXPECT_THAT(lookup("rows { ids { } } pooling { offsets: [0, 0, 0, 0, 0] }"),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "pooling.offsets makes 5 bags, limit 4 (--max-ids); the largest batch that fits is 4"));
  EXPECT_EQ(lookup("rows { ids { } } pooling { offsets: [0, 0, 0, 0, 0] include_last_offset: true }"),
            absl::OkStatus());
  EXPECT_EQ(
      DetailsOf(lookup("rows { ids { } } pooling { offsets: [0, 0, 0, 0, 0, 0] include_last_offset: true }")).reason,
      "LIMIT_EXCEEDED");
  EXPECT_EQ(lookup("rows { ids { shape: [4, 0] } } pooling { }"), absl::OkStatus());
  EXPECT_THAT(lookup("rows { ids { shape: [9223372036854775807, 0] } } pooling { }"),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "rows.ids.shape makes 9223372036854775807 bags, limit 4 (--max-ids); the largest batch that fits "
                      "is 4"));
}

TEST_F(LookupPoolingTest, TheLimitOnAnswersCountsBagsNotIds) {
  RequestLimits limits;
  limits.max_response_bytes = 200;
  Services services(TablesOf(CountingTable("wide", 3, 10)), limits);
  std::string ids;
  for (int i = 0; i < 100; ++i) ids += " values: 1";
  EXPECT_EQ(services.Lookup(FromText("rows { ids {" + ids + " } } pooling { offsets: [0, 1, 2] }"), &response_),
            absl::OkStatus());
  const absl::Status status =
      services.Lookup(FromText("rows { ids {" + ids + " } } pooling { offsets: [0, 1, 2, 3] }"), &response_);
  EXPECT_EQ(DetailsOf(status).reason, "LIMIT_EXCEEDED");
  EXPECT_THAT(std::string(status.message()), ::testing::EndsWith("; the largest batch that fits is 3 bags"));
}

// 4,096 ids of 1,024 columns: more than a polling thread takes upon itself.
std::shared_ptr<FakeCall> LongCall() {
  v1::LookupRequest request;
  for (int i = 0; i < 4096; ++i) request.mutable_rows()->mutable_ids()->add_values(i % 4);
  request.mutable_pooling()->add_offsets(0);
  return std::make_shared<FakeCall>(BodyOf(request.SerializeAsString()));
}

TEST_F(LookupPoolingTest, LongSumsRunOnThePoolAndHoldAPlaceThere) {
  Services services(TablesOf(CountingTable("items", 4, 1024)));
  const auto call = LongCall();
  call->OnEnd([&] { EXPECT_EQ(services.admission.queued_searches(), 0); });
  services.methods.at("Lookup").handle(call);
  ASSERT_EQ(call->status(), absl::OkStatus());
  v1::LookupResponse response;
  ASSERT_TRUE(response.ParseFromString(BytesOf(call->TakeReply())));
  EXPECT_EQ(FloatsOf(response.embeddings())[1], 1024.0f * (1 + 1001 + 2001 + 3001));
}

TEST_F(LookupPoolingTest, LongSumsAreRefusedWhenTheQueueIsFull) {
  AdmissionLimits admission;
  admission.max_queued_searches = 1;
  Services services(TablesOf(CountingTable("items", 4, 1024)), {}, admission);
  const auto place = services.admission.Admit(0, /*search=*/true);
  ASSERT_TRUE(place.ok());
  const auto call = LongCall();
  services.methods.at("Lookup").handle(call);
  EXPECT_EQ(DetailsOf(call->status()).reason, "OVERLOADED");
}

TEST_F(LookupPoolingTest, LongSumsStopWithinABag) {
  Services services(TablesOf(CountingTable("items", 4, 1024)));
  const auto call = LongCall();
  call->StopAfterPolls(2);  // on arrival and once within the bag of 4 Mi elements
  services.methods.at("Lookup").handle(call);
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call->polls(), 3);
  EXPECT_EQ(services.admission.in_flight_bytes(), 0);
}

}  // namespace
}  // namespace embedding::testing
