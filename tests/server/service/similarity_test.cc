// Similarity as a caller sees it.
#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;
using ::testing::Pointwise;

void SetIds(v1::VectorSet* set, const std::vector<int64_t>& ids) {
  v1::IdList* list = set->mutable_rows()->mutable_ids();
  list->Clear();
  for (const int64_t id : ids) list->add_values(id);
}

v1::SimilarityRequest PairsOfIds(const std::vector<int64_t>& left, const std::vector<int64_t>& right,
                                 v1::Metric metric) {
  v1::SimilarityRequest request;
  SetIds(request.mutable_left(), left);
  SetIds(request.mutable_right(), right);
  request.set_metric(metric);
  return request;
}

v1::SimilarityRequest PairsOfVectors(int64_t dim, const std::vector<float>& left, const std::vector<float>& right,
                                     v1::Metric metric) {
  v1::SimilarityRequest request;
  SetVectors(request.mutable_left()->mutable_vectors(), dim, left);
  SetVectors(request.mutable_right()->mutable_vectors(), dim, right);
  request.set_metric(metric);
  return request;
}

class SimilarityTest : public ::testing::Test {
 protected:
  absl::Status Similarity(const v1::SimilarityRequest& request) {
    return services_.Call("Similarity", request, &response_);
  }
  std::vector<float> Scores(const v1::SimilarityRequest& request) {
    EXPECT_EQ(Similarity(request), absl::OkStatus());
    return FloatsOf(response_.scores());
  }

  Services services_{TablesOf(ToyTable(), FloatTable("plane", 2, {0, 0, 3, 4, 1, 0}))};
  v1::SimilarityResponse response_;
};

v1::SimilarityRequest On(const std::string& table, v1::SimilarityRequest request) {
  request.mutable_table()->set_name(table);
  return request;
}

// robot [1,0,1], arm [.9,.1,.8], box [0,1,0], tool [-1,0,.5].
TEST_F(SimilarityTest, GivesTheValuesComputedByHand) {
  EXPECT_THAT(Scores(On("toy", PairsOfIds({0, 0, 0}, {1, 2, 3}, v1::METRIC_DOT))),
              Pointwise(FloatNear(1e-6f), {1.7f, 0.f, -0.5f}));
  EXPECT_EQ(response_.metric(), v1::METRIC_DOT);
  EXPECT_TRUE(response_.higher_is_closer());
  EXPECT_THAT(Scores(On("toy", PairsOfIds({0, 0, 0}, {1, 2, 3}, v1::METRIC_COSINE))),
              Pointwise(FloatNear(5e-4f), {0.995f, 0.f, -0.316f}));
  EXPECT_THAT(Scores(On("toy", PairsOfIds({0, 0}, {2, 3}, v1::METRIC_EUCLIDEAN))),
              ElementsAre(static_cast<float>(std::sqrt(3.0)), static_cast<float>(std::sqrt(4.25))));
  EXPECT_FALSE(response_.higher_is_closer());
  EXPECT_THAT(Scores(On("plane", PairsOfVectors(2, {3, 4}, {4, 3}, v1::METRIC_DOT))), ElementsAre(24));
  EXPECT_THAT(Scores(On("plane", PairsOfVectors(2, {3, 4}, {4, 3}, v1::METRIC_COSINE))), ElementsAre(0.96f));
  EXPECT_THAT(Scores(On("plane", PairsOfVectors(2, {3, 4}, {0, 0}, v1::METRIC_EUCLIDEAN))), ElementsAre(5));
}

TEST_F(SimilarityTest, AllPairsAreLeftByRight) {
  v1::SimilarityRequest request = On("toy", PairsOfIds({0, 2}, {0, 2, 3}, v1::METRIC_DOT));
  request.set_layout(v1::LAYOUT_ALL_PAIRS);
  EXPECT_THAT(Scores(request), ElementsAre(2, 0, -0.5f, 0, 1, 0));
  EXPECT_THAT(ShapeOf(response_.scores()), ElementsAre(2, 3));
  EXPECT_EQ(response_.scores().dtype(), v1::DTYPE_F32);
  request.set_encoding(v1::ENCODING_FLOATS);
  ASSERT_EQ(Similarity(request), absl::OkStatus());
  EXPECT_THAT(response_.scores().values(), ElementsAre(2, 0, -0.5f, 0, 1, 0));
  EXPECT_THAT(response_.scores().data(), IsEmpty());
}

TEST_F(SimilarityTest, AnswersWithTheBytesThatProtobufWouldWrite) {
  for (const v1::Metric metric : {v1::METRIC_DOT, v1::METRIC_EUCLIDEAN}) {
    for (const std::vector<int64_t>& ids : {std::vector<int64_t>{}, std::vector<int64_t>{0, 1, 2}}) {
      const auto call =
          services_.Start("Similarity", BodyOf(On("toy", PairsOfIds(ids, ids, metric)).SerializeAsString()));
      ASSERT_EQ(call->status(), absl::OkStatus());
      const std::string bytes = BytesOf(call->TakeReply());
      ASSERT_TRUE(response_.ParseFromString(bytes));
      EXPECT_EQ(response_.SerializeAsString(), bytes);
      EXPECT_THAT(ShapeOf(response_.scores()), ElementsAre(static_cast<int64_t>(ids.size())));
    }
  }
}

TEST_F(SimilarityTest, ZeroVectorsScoreZeroByCosine) {
  EXPECT_THAT(Scores(On("plane", PairsOfIds({0, 0, 1}, {1, 0, 0}, v1::METRIC_COSINE))), ElementsAre(0, 0, 0));
}

TEST_F(SimilarityTest, TinyAndHugeVectorsKeepTheirCosine) {
  EXPECT_THAT(Scores(On("plane", PairsOfVectors(2, {1e-30f, 1e-30f, 1e30f, 1e30f}, {1, 0, 1, 0}, v1::METRIC_COSINE))),
              Pointwise(FloatNear(1e-6f), {std::sqrt(0.5f), std::sqrt(0.5f)}));
  EXPECT_THAT(Scores(On("plane", PairsOfVectors(2, {1e30f, 1e30f}, {1e30f, 1e30f}, v1::METRIC_DOT))),
              ElementsAre(FLT_MAX));
}

TEST_F(SimilarityTest, UnsetMetricIsTheTablesOwn) {
  Scores(On("toy", PairsOfIds({0}, {1}, v1::METRIC_UNSPECIFIED)));
  EXPECT_EQ(response_.metric(), v1::METRIC_COSINE);
}

TEST_F(SimilarityTest, MixesRowsByKeyWithVectorsOfEveryDtype) {
  v1::SimilarityRequest request;
  request.mutable_table()->set_name("toy");
  request.set_metric(v1::METRIC_DOT);
  request.mutable_left()->mutable_rows()->mutable_keys()->add_values("tool");
  v1::Tensor* vectors = request.mutable_right()->mutable_vectors();
  vectors->add_shape(3);  // [d] is one vector
  vectors->set_dtype(v1::DTYPE_F64);
  vectors->set_data(RawBytes(std::vector<double>{2, 9, 4}));
  EXPECT_THAT(Scores(request), ElementsAre(0));
  vectors->set_data(RawBytes(std::vector<double>{2, 9, 8}));
  EXPECT_THAT(Scores(request), ElementsAre(2));
  vectors->set_dtype(v1::DTYPE_F16);
  vectors->set_data(RawBytes(std::vector<uint16_t>{0x4000, 0x4880, 0x4800}));
  EXPECT_THAT(Scores(request), ElementsAre(2));
  vectors->set_dtype(v1::DTYPE_BF16);
  vectors->set_data(RawBytes(std::vector<uint16_t>{0x4000, 0x4110, 0x4100}));
  EXPECT_THAT(Scores(request), ElementsAre(2));
  vectors->clear_dtype();
  vectors->clear_data();
  for (const float value : {2.f, 9.f, 8.f}) vectors->add_values(value);
  EXPECT_THAT(Scores(request), ElementsAre(2));
}

TEST_F(SimilarityTest, PairwiseNeedsAsManyOnBothSides) {
  EXPECT_THAT(Similarity(On("toy", PairsOfIds({0, 1, 2}, {0, 1}, v1::METRIC_DOT))),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "left has 3 vectors, right has 2: LAYOUT_PAIRWISE needs as many on both sides"));
}

TEST_F(SimilarityTest, UnsetSidesAreNamed) {
  v1::SimilarityRequest request;
  EXPECT_THAT(Similarity(request),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "left is unset, must hold rows or vectors"));
  SetIds(request.mutable_left(), {0});
  request.mutable_right();
  EXPECT_THAT(Similarity(request),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "right is empty, must hold rows or vectors"));
  request.mutable_right()->mutable_rows();
  EXPECT_THAT(Similarity(request), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                           "right.rows is unset, must hold ids, keys or id_tensor"));
}

TEST_F(SimilarityTest, WrongRowsAreNamedWithTheirSide) {
  const absl::Status status = Similarity(On("toy", PairsOfIds({0, 1}, {0, 4}, v1::METRIC_DOT)));
  EXPECT_THAT(status,
              IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "right.ids[1] is 4, table \"toy\" has 4 rows"));
  EXPECT_EQ(FieldOf(status), "right.rows.ids.values[1]");
  v1::SimilarityRequest request = On("toy", PairsOfIds({0}, {0}, v1::METRIC_DOT));
  request.mutable_left()->mutable_rows()->mutable_ids()->add_shape(1);
  request.mutable_left()->mutable_rows()->mutable_ids()->add_shape(1);
  EXPECT_THAT(Similarity(request), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                           "left.ids.shape has 2 dimensions, must have 1: only Lookup takes more"));
}

TEST_F(SimilarityTest, UnknownEnumNumbersAreRefused) {
  v1::SimilarityRequest request = On("toy", PairsOfIds({0}, {0}, static_cast<v1::Metric>(17)));
  EXPECT_THAT(Similarity(request),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "metric=17, allowed: METRIC_UNSPECIFIED (0), METRIC_COSINE (1), METRIC_DOT (2), "
                      "METRIC_EUCLIDEAN (3)"));
  request.set_layout(static_cast<v1::Layout>(9));
  EXPECT_THAT(Similarity(request),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "layout=9, allowed: LAYOUT_UNSPECIFIED (0), LAYOUT_PAIRWISE (1), LAYOUT_ALL_PAIRS (2)"));
}

TEST_F(SimilarityTest, MalformedBodiesAreRefused) {
  EXPECT_THAT(services_.CallBytes("Similarity", "\x12\x05", &response_),
              IsError(StatusCode::kInvalidArgument, "MALFORMED",
                      "not a valid embedding.v1.SimilarityRequest: broken protobuf encoding, or a string that is not "
                      "UTF-8"));
}

TEST_F(SimilarityTest, CountsVectorsOfBothSides) {
  Scores(On("toy", PairsOfIds({0, 1}, {1, 2}, v1::METRIC_DOT)));
  EXPECT_EQ(MetricValue(services_.metrics, "embedding_rows_total", {{"grpc_method", "Similarity"}, {"result", "hit"}}),
            4);
}

TEST(SimilarityLimitTest, PairsAtTheLimitAreServedAndOneMoreRefused) {
  RequestLimits limits;
  limits.max_pairs = 6;
  Services services(TablesOf(ToyTable()), limits);
  v1::SimilarityResponse response;
  v1::SimilarityRequest request = PairsOfIds({0, 1}, {0, 1, 2}, v1::METRIC_DOT);
  request.set_layout(v1::LAYOUT_ALL_PAIRS);
  EXPECT_EQ(services.Call("Similarity", request, &response), absl::OkStatus());
  SetIds(request.mutable_left(), {0, 1, 2});
  EXPECT_THAT(services.Call("Similarity", request, &response),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "9 pairs (3 x 3), limit 6 (--max-pairs); with 3 right the largest left that fits is 2"));
  EXPECT_THAT(services.Call("Similarity", PairsOfIds(std::vector<int64_t>(7), std::vector<int64_t>(7), v1::METRIC_DOT),
                            &response),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "7 pairs, limit 6 (--max-pairs); the largest batch that fits is 6 pairs"));
}

TEST(SimilarityLimitTest, AnswerAboveTheByteLimitIsRefusedBeforeTheWork) {
  RequestLimits limits;
  limits.max_response_bytes = 100;
  Services services(TablesOf(ToyTable()), limits);
  v1::SimilarityResponse response;
  const std::vector<int64_t> ids(40, 1);
  const absl::Status status = services.Call("Similarity", PairsOfIds(ids, ids, v1::METRIC_DOT), &response);
  EXPECT_EQ(DetailsOf(status).reason, "LIMIT_EXCEEDED");
  const std::string message(status.message());
  const std::string hint = "the largest batch that fits is ";
  ASSERT_NE(message.find(hint), std::string::npos) << message;
  const auto fits = static_cast<size_t>(std::stoi(message.substr(message.find(hint) + hint.size())));
  const std::vector<int64_t> fitting(fits, 1), more(fits + 1, 1);
  EXPECT_EQ(services.Call("Similarity", PairsOfIds(fitting, fitting, v1::METRIC_DOT), &response), absl::OkStatus());
  EXPECT_LE(response.ByteSizeLong(), 100u);
  EXPECT_FALSE(services.Call("Similarity", PairsOfIds(more, more, v1::METRIC_DOT), &response).ok());
}

TEST(SimilarityNonFiniteTest, RowsThatAreNotFiniteAreNoOperands) {
  Services services(TablesOf(FloatTable("odd", 2, {1, 2, std::numeric_limits<float>::infinity(), 0}, {"fine", "odd"})));
  v1::SimilarityResponse response;
  EXPECT_THAT(services.Call("Similarity", PairsOfIds({0, 1}, {0, 0}, v1::METRIC_DOT), &response),
              IsError(StatusCode::kFailedPrecondition, "NON_FINITE_ROW",
                      "left.ids[1] is row 1 of table \"odd\", which holds NaN or infinity and has no score"));
}

TEST(SimilarityStopTest, CallsThatStopAreEndedAndGiveTheirPlaceBack) {
  AdmissionLimits admission;
  admission.max_queued_searches = 1;
  Services services(TablesOf(CountingTable("items", 2000, 64)), {}, admission);
  v1::SimilarityRequest request;
  std::vector<int64_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  request = PairsOfIds(ids, ids, v1::METRIC_DOT);
  request.set_layout(v1::LAYOUT_ALL_PAIRS);
  auto call = std::make_shared<FakeCall>(BodyOf(request.SerializeAsString()));
  call->StopAfterPolls(3);
  services.methods.at("Similarity").handle(call);
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  // The state goes when its last worker has let go of it; the next call finds the place free then.
  call.reset();
  v1::SimilarityResponse response;
  absl::Status next = absl::UnknownError("");
  do {
    next = services.Call("Similarity", PairsOfIds({0}, {1}, v1::METRIC_DOT), &response);
  } while (next.code() == StatusCode::kResourceExhausted);
  EXPECT_EQ(next, absl::OkStatus());
}

TEST(SimilarityStopTest, LargeRequestsAreDecodedByAWorker) {
  Services services(TablesOf(CountingTable("items", 20, 256)));
  v1::SimilarityResponse response;
  const std::vector<float> many(200 * 256, 1);  // 200 KiB
  EXPECT_EQ(services.Call("Similarity", PairsOfVectors(256, many, many, v1::METRIC_COSINE), &response),
            absl::OkStatus());
  EXPECT_THAT(FloatsOf(response.scores()), ::testing::Each(1.f));
}

v1::SimilarityRequest MeansOf(const std::vector<int64_t>& left, const std::vector<int64_t>& right, v1::Metric metric) {
  v1::SimilarityRequest request = PairsOfIds(left, right, metric);
  request.set_reduce(v1::REDUCE_MEAN);
  return request;
}

TEST_F(SimilarityTest, ReduceMeanScoresTheMeansOfBothSides) {
  // Means (1.5, 2) of rows 0 and 1, and (1.333, 1.333) of all; 3 pairs of either kind are none that is asked for.
  EXPECT_THAT(Scores(On("plane", MeansOf({0, 1}, {0, 1, 2}, v1::METRIC_DOT))), ElementsAre(14.0f / 3));
  EXPECT_THAT(ShapeOf(response_.scores()), ElementsAre(1));
  EXPECT_THAT(Scores(On("plane", MeansOf({1}, {2, 2}, v1::METRIC_COSINE))), ElementsAre(.6f));
  EXPECT_THAT(Scores(On("plane", MeansOf({1, 1, 0, 0}, {0}, v1::METRIC_EUCLIDEAN))), ElementsAre(2.5f));
  v1::SimilarityRequest request = PairsOfVectors(2, {3, 0, 1, 2}, {4, 3}, v1::METRIC_DOT);  // (2, 1) . (4, 3)
  request.set_reduce(v1::REDUCE_MEAN);
  request.set_layout(v1::LAYOUT_PAIRWISE);
  request.set_encoding(v1::ENCODING_FLOATS);
  EXPECT_THAT(Scores(On("plane", request)), ElementsAre(11));
  EXPECT_THAT(response_.scores().data(), IsEmpty());
}

TEST_F(SimilarityTest, ReduceTakesNoOtherLayoutAndNoEmptySide) {
  v1::SimilarityRequest request = MeansOf({0}, {1}, v1::METRIC_DOT);
  request.set_layout(v1::LAYOUT_ALL_PAIRS);
  absl::Status status = Similarity(On("toy", request));
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                              "layout=LAYOUT_ALL_PAIRS, reduce takes LAYOUT_PAIRWISE or none"));
  EXPECT_EQ(FieldOf(status), "layout");
  status = Similarity(On("toy", MeansOf({}, {1}, v1::METRIC_DOT)));
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                              "left has no vectors, REDUCE_MEAN needs at least one"));
  EXPECT_EQ(FieldOf(status), "left");
  EXPECT_EQ(FieldOf(Similarity(On("toy", MeansOf({0}, {}, v1::METRIC_DOT)))), "right");
  request = MeansOf({0}, {1}, v1::METRIC_DOT);
  request.set_reduce(static_cast<v1::Reduce>(7));
  status = Similarity(On("toy", request));
  EXPECT_EQ(DetailsOf(status).reason, "INVALID_FIELD");
  EXPECT_EQ(FieldOf(status), "reduce");
}

TEST(SimilarityReduceTest, SidesAtTheLimitOfIdsMakeOnePair) {
  RequestLimits limits;
  limits.max_ids = 400;
  limits.max_pairs = 1;
  Services services(TablesOf(CountingTable("items", 10, 100)), limits);
  v1::SimilarityRequest request =
      MeansOf(std::vector<int64_t>(400, 3), std::vector<int64_t>(399, 4), v1::METRIC_EUCLIDEAN);
  v1::SimilarityResponse response;
  ASSERT_EQ(services.Call("Similarity", request, &response), absl::OkStatus());
  EXPECT_THAT(FloatsOf(response.scores()), ElementsAre(10000));  // each of 100 elements differs by 1000
  request.mutable_left()->mutable_rows()->mutable_ids()->add_values(3);
  EXPECT_EQ(DetailsOf(services.Call("Similarity", request, &response)).reason, "LIMIT_EXCEEDED");
}

TEST_F(SimilarityTest, ZeroLetsMissingRowsTakePartAsZeros) {
  v1::SimilarityRequest request = On("plane", PairsOfIds({1, 3, 1, 7}, {2, 1, 9, 8}, v1::METRIC_EUCLIDEAN));
  request.set_missing(v1::MISSING_POLICY_ZERO);
  EXPECT_THAT(Scores(request), ElementsAre(FloatNear(std::sqrt(20.0f), 1e-6f), 5, 5, 0));
  EXPECT_THAT(response_.missing_left(), ElementsAre(1, 3));
  EXPECT_THAT(response_.missing_right(), ElementsAre(2, 3));
  request.set_layout(v1::LAYOUT_ALL_PAIRS);
  SetIds(request.mutable_left(), {5, 2});
  SetIds(request.mutable_right(), {1});
  EXPECT_THAT(Scores(request), ElementsAre(5, FloatNear(std::sqrt(20.0f), 1e-6f)));
  EXPECT_THAT(response_.missing_left(), ElementsAre(0));
  EXPECT_THAT(response_.missing_right(), IsEmpty());
  request = On("plane", MeansOf({1, 99}, {2}, v1::METRIC_DOT));  // (3, 4) / 2
  request.set_missing(v1::MISSING_POLICY_ZERO);
  EXPECT_THAT(Scores(request), ElementsAre(1.5f));
  EXPECT_THAT(response_.missing_left(), ElementsAre(1));
}

TEST_F(SimilarityTest, ZeroOfKeysAndItsBytesAreThoseOfProtobuf) {
  v1::SimilarityRequest request;
  for (const char* key : {"robot", "leg"}) {
    request.mutable_left()->mutable_rows()->mutable_keys()->add_values(key);
    request.mutable_right()->mutable_rows()->mutable_keys()->add_values(key);
  }
  request.mutable_table()->set_name("toy");
  request.set_metric(v1::METRIC_COSINE);
  request.set_missing(v1::MISSING_POLICY_ZERO);
  const auto call = services_.Start("Similarity", BodyOf(request.SerializeAsString()));
  ASSERT_EQ(call->status(), absl::OkStatus());
  const std::string bytes = BytesOf(call->TakeReply());
  ASSERT_TRUE(response_.ParseFromString(bytes));
  EXPECT_EQ(response_.SerializeAsString(), bytes);
  EXPECT_THAT(FloatsOf(response_.scores()), ElementsAre(1, 0));
  EXPECT_THAT(response_.missing_right(), ElementsAre(1));
}

TEST_F(SimilarityTest, PoliciesThatSimilarityDoesNotNameAreRefused) {
  v1::SimilarityRequest request = On("toy", PairsOfIds({0}, {1}, v1::METRIC_DOT));
  request.set_missing(v1::MISSING_POLICY_SKIP);
  EXPECT_THAT(Similarity(request), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                           "missing=MISSING_POLICY_SKIP (4), allowed: MISSING_POLICY_ERROR (1), "
                                           "MISSING_POLICY_ZERO (2)"));
}

}  // namespace
}  // namespace embedding::testing
