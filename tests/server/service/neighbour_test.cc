// NearestNeighbour as a caller sees it.
#include <cmath>
#include <limits>
#include <thread>

#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::NearestNeighbourRequest ByIds(const std::vector<int64_t>& ids, int32_t k, v1::Metric metric) {
  v1::NearestNeighbourRequest request;
  v1::IdList* list = request.mutable_targets()->mutable_rows()->mutable_ids();
  for (const int64_t id : ids) list->add_values(id);
  request.set_k(k);
  request.set_metric(metric);
  return request;
}

v1::NearestNeighbourRequest ByVectors(int64_t dim, const std::vector<float>& floats, int32_t k, v1::Metric metric) {
  v1::NearestNeighbourRequest request;
  SetVectors(request.mutable_targets()->mutable_vectors(), dim, floats);
  request.set_k(k);
  request.set_metric(metric);
  return request;
}

class NeighbourTest : public ::testing::Test {
 protected:
  absl::Status Search(const v1::NearestNeighbourRequest& request) {
    return services_.Call("NearestNeighbour", request, &response_);
  }

  Services services_{TablesOf(ToyTable())};
  v1::NearestNeighbourResponse response_;
};

TEST_F(NeighbourTest, RowsOfTheTableLeaveThemselvesOut) {
  // By dot robot scores: itself 2, arm 1.7, box 0, tool -0.5.
  ASSERT_EQ(Search(ByIds({0, 2}, 2, v1::METRIC_DOT)), absl::OkStatus());
  ASSERT_EQ(response_.results_size(), 2);
  EXPECT_THAT(response_.results(0).ids(), ElementsAre(1, 2));
  EXPECT_THAT(response_.results(0).scores(), ElementsAre(1.7f, 0));
  EXPECT_THAT(response_.results(1).ids(), ElementsAre(1, 0));  // box: arm .1; robot and tool 0, the lower id first
  EXPECT_THAT(response_.results(0).keys(), IsEmpty());
  EXPECT_FALSE(response_.results(0).has_vectors());
  EXPECT_EQ(response_.metric(), v1::METRIC_DOT);
  EXPECT_TRUE(response_.higher_is_closer());
  EXPECT_EQ(response_.table().name(), "toy");
}

TEST_F(NeighbourTest, TablesOfBytesScoreTheValuesThatTheyStore) {
  // Codes of 1, 0.5, -2 and 320 in E4M3 and the integers that the same bytes are; scores by hand.
  const std::vector<uint8_t> codes = {0x38, 0x00, 0x30, 0x38, 0xc0, 0x7a};
  const struct {
    Dtype dtype;
    v1::Dtype wire;
    std::vector<float> values;
  } kCases[] = {{Dtype::kF8E4M3, v1::DTYPE_F8_E4M3, {1, 0, .5f, 1, -2, 320}},
                {Dtype::kF8E5M2, v1::DTYPE_F8_E5M2, {.5f, 0, .125f, .5f, -2, 49152}},
                {Dtype::kI8, v1::DTYPE_I8, {56, 0, 48, 56, -64, 122}},
                {Dtype::kU8, v1::DTYPE_U8, {56, 0, 48, 56, 192, 122}}};
  for (const auto& c : kCases) {
    Services services(TablesOf(TableFromMemory("bytes", c.dtype, 3, 2, codes.data())));
    v1::NearestNeighbourRequest request = ByVectors(2, {1, 2}, 10, v1::METRIC_DOT);
    request.set_return_vectors(true);
    v1::NearestNeighbourResponse response;
    ASSERT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
    std::vector<std::pair<float, int64_t>> want;
    for (int64_t row = 0; row < 3; ++row) {
      want.emplace_back(-(c.values[static_cast<size_t>(2 * row)] + 2 * c.values[static_cast<size_t>(2 * row + 1)]),
                        row);
    }
    std::sort(want.begin(), want.end());
    const v1::Neighbours& found = response.results(0);
    std::string stored;
    for (int rank = 0; rank < 3; ++rank) {
      const auto id = static_cast<size_t>(want[static_cast<size_t>(rank)].second);
      EXPECT_EQ(found.ids(rank), static_cast<int64_t>(id));
      EXPECT_EQ(found.scores(rank), -want[static_cast<size_t>(rank)].first);
      stored += RawBytes(codes).substr(2 * id, 2);
    }
    EXPECT_EQ(found.vectors().dtype(), c.wire);
    EXPECT_EQ(found.vectors().data(), stored);
    request.set_encoding(v1::ENCODING_FLOATS);
    ASSERT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
    EXPECT_THAT(FloatsOf(response.results(0).vectors()).front(),
                c.values[static_cast<size_t>(2 * response.results(0).ids(0))]);
    EXPECT_EQ(response.results(0).vectors().dtype(), v1::DTYPE_F32);
  }
}

TEST_F(NeighbourTest, IncludeInputsKeepsThem) {
  v1::NearestNeighbourRequest request = ByIds({0}, 2, v1::METRIC_DOT);
  request.set_include_inputs(true);
  ASSERT_EQ(Search(request), absl::OkStatus());
  EXPECT_THAT(response_.results(0).ids(), ElementsAre(0, 1));
  EXPECT_THAT(response_.results(0).scores(), ElementsAre(2, 1.7f));
}

TEST_F(NeighbourTest, VectorsOfTheCallersLeaveNothingOut) {
  ASSERT_EQ(Search(ByVectors(3, {1, 0, 1}, 10, v1::METRIC_DOT)), absl::OkStatus());
  EXPECT_THAT(response_.results(0).ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(response_.results(0).scores(), ElementsAre(2, 1.7f, 0, -.5f));
}

TEST_F(NeighbourTest, EuclideanIsClosestFirstToo) {
  ASSERT_EQ(Search(ByVectors(3, {0, 1, 0}, 2, v1::METRIC_EUCLIDEAN)), absl::OkStatus());
  // box itself 0; tool sqrt(1 + 1 + .25) = 1.5; arm sqrt(.81 + .81 + .64) = 1.503.
  EXPECT_THAT(response_.results(0).ids(), ElementsAre(2, 3));
  EXPECT_THAT(response_.results(0).scores(), ElementsAre(0, 1.5f));
  EXPECT_FALSE(response_.higher_is_closer());
}

TEST_F(NeighbourTest, GivesKeysAndVectorsBesideIds) {
  v1::NearestNeighbourRequest request = ByIds({0}, 2, v1::METRIC_COSINE);
  request.set_return_keys(true);
  request.set_return_vectors(true);
  ASSERT_EQ(Search(request), absl::OkStatus());
  EXPECT_THAT(response_.results(0).keys(), ElementsAre("arm", "box"));
  EXPECT_THAT(ShapeOf(response_.results(0).vectors()), ElementsAre(2, 3));
  EXPECT_THAT(FloatsOf(response_.results(0).vectors()), ElementsAre(.9f, .1f, .8f, 0, 1, 0));
  request.set_encoding(v1::ENCODING_FLOATS);
  ASSERT_EQ(Search(request), absl::OkStatus());
  EXPECT_THAT(response_.results(0).vectors().values(), ElementsAre(.9f, .1f, .8f, 0, 1, 0));
  EXPECT_THAT(response_.results(0).vectors().data(), IsEmpty());
}

TEST_F(NeighbourTest, AnswersWithTheBytesThatProtobufWouldWrite) {
  for (const int bits : {0, 1, 2, 3, 6, 7}) {
    v1::NearestNeighbourRequest request = ByIds({0, 3, 3}, 3, v1::METRIC_DOT);
    request.set_return_keys((bits & 1) != 0);
    request.set_return_vectors((bits & 2) != 0);
    request.set_encoding((bits & 4) != 0 ? v1::ENCODING_FLOATS : v1::ENCODING_BYTES);
    const auto call = services_.Start("NearestNeighbour", BodyOf(request.SerializeAsString()));
    ASSERT_EQ(call->status(), absl::OkStatus());
    const std::string bytes = BytesOf(call->TakeReply());
    ASSERT_TRUE(response_.ParseFromString(bytes));
    EXPECT_EQ(response_.SerializeAsString(), bytes);
    EXPECT_EQ(response_.results_size(), 3);
  }
}

TEST(NeighbourHalfTest, VectorsComeAsStoredOrWidened) {
  const std::vector<uint16_t> bits = {0x3C00, 0x4000, 0x3555, 0xC000};  // 1, 2; 0.33325, -2
  Services services(TablesOf(TableFromMemory("halves", Dtype::kF16, 2, 2, bits.data())));
  v1::NearestNeighbourResponse response;
  v1::NearestNeighbourRequest request = ByVectors(2, {1, 1}, 2, v1::METRIC_DOT);
  request.set_return_vectors(true);
  ASSERT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  EXPECT_EQ(response.results(0).vectors().dtype(), v1::DTYPE_F16);
  EXPECT_EQ(response.results(0).vectors().data(), RawBytes(bits));
  request.set_encoding(v1::ENCODING_FLOATS);
  ASSERT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  EXPECT_EQ(response.results(0).vectors().dtype(), v1::DTYPE_F32);
  EXPECT_THAT(response.results(0).vectors().values(), ElementsAre(1, 2, 0.333251953125f, -2));
}

TEST(NeighbourOneRowTest, NoEligibleRowGivesAnEmptyResultOfTheTablesWidth) {
  Services services(TablesOf(FloatTable("one", 2, {1, 2}, {"only"})));
  v1::NearestNeighbourRequest request = ByIds({0}, 5, v1::METRIC_DOT);
  request.set_return_keys(true);
  request.set_return_vectors(true);
  v1::NearestNeighbourResponse response;
  ASSERT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_THAT(response.results(0).ids(), IsEmpty());
  EXPECT_THAT(ShapeOf(response.results(0).vectors()), ElementsAre(0, 2));
}

TEST_F(NeighbourTest, NoQueriesGiveNoResults) {
  ASSERT_EQ(Search(ByIds({}, 3, v1::METRIC_UNSPECIFIED)), absl::OkStatus());
  EXPECT_EQ(response_.results_size(), 0);
  EXPECT_EQ(response_.metric(), v1::METRIC_COSINE);
  EXPECT_EQ(response_.table().name(), "toy");
}

TEST_F(NeighbourTest, ZeroQueryScoresZeroByCosine) {
  ASSERT_EQ(Search(ByVectors(3, {0, 0, 0}, 4, v1::METRIC_COSINE)), absl::OkStatus());
  EXPECT_THAT(response_.results(0).ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(response_.results(0).scores(), ElementsAre(0, 0, 0, 0));
}

TEST_F(NeighbourTest, KIsHeldInItsRange) {
  for (const int32_t k : {0, -1, std::numeric_limits<int32_t>::min()}) {
    const absl::Status status = Search(ByIds({0}, k, v1::METRIC_DOT));
    EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                "k=" + std::to_string(k) + ", must be in 1..10000"));
    EXPECT_EQ(FieldOf(status), "k");
  }
  EXPECT_THAT(Search(ByIds({0}, 2147483647, v1::METRIC_DOT)),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "k=2147483647, limit 10000 (--max-k); the largest k that fits is 10000"));
  for (const int32_t k : {4, 5, 10000}) {  // V, V + 1, the limit
    ASSERT_EQ(Search(ByIds({0}, k, v1::METRIC_DOT)), absl::OkStatus());
    EXPECT_THAT(response_.results(0).ids(), ElementsAre(1, 2, 3));
  }
}

TEST_F(NeighbourTest, WrongTargetsAreNamed) {
  EXPECT_THAT(Search(ByVectors(2, {1, 2}, 1, v1::METRIC_DOT)),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "targets.vectors has 2 values a row, table \"toy\" is 3 wide"));
  EXPECT_THAT(Search(ByVectors(3, {1, 2, 3, 4, NAN, 6}, 1, v1::METRIC_DOT)),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "targets.vectors[1][1] is NaN, must be finite"));
  EXPECT_THAT(Search(ByIds({0, 9}, 1, v1::METRIC_DOT)),
              IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "targets.ids[1] is 9, table \"toy\" has 4 rows"));
  v1::NearestNeighbourRequest request;
  request.set_k(1);
  EXPECT_THAT(Search(request),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "query is unset, must hold targets or examples"));
  request.mutable_targets()->mutable_rows()->mutable_keys()->add_values("leg");
  EXPECT_THAT(Search(request), IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                                       "targets.keys[0] \"leg\" is not a key of table \"toy\"; 1 of 1 missing, at 0"));
}

TEST_F(NeighbourTest, SkipGivesMissingTargetsEmptyResults) {
  v1::NearestNeighbourRequest request = ByIds({4, 0, 9, 2, 1000}, 2, v1::METRIC_DOT);
  request.set_return_keys(true);
  request.set_return_vectors(true);
  request.set_missing(v1::MISSING_POLICY_SKIP);
  ASSERT_EQ(Search(request), absl::OkStatus());
  ASSERT_EQ(response_.results_size(), 5);
  EXPECT_THAT(response_.missing_positions(), ElementsAre(0, 2, 4));
  for (const int i : {0, 2, 4}) {
    EXPECT_THAT(response_.results(i).ids(), IsEmpty());
    EXPECT_THAT(ShapeOf(response_.results(i).vectors()), ElementsAre(0, 3));
  }
  EXPECT_THAT(response_.results(1).ids(), ElementsAre(1, 2));
  EXPECT_THAT(response_.results(3).ids(), ElementsAre(1, 0));

  request.mutable_targets()->mutable_rows()->mutable_keys()->add_values("leg");  // and none that exists
  const auto call = services_.Start("NearestNeighbour", BodyOf(request.SerializeAsString()));
  ASSERT_EQ(call->status(), absl::OkStatus());
  const std::string bytes = BytesOf(call->TakeReply());
  ASSERT_TRUE(response_.ParseFromString(bytes));
  EXPECT_EQ(response_.SerializeAsString(), bytes);
  EXPECT_EQ(response_.results_size(), 1);
  EXPECT_THAT(response_.missing_positions(), ElementsAre(0));
}

TEST_F(NeighbourTest, NegativeIdsAreWrongWhateverThePolicy) {
  v1::NearestNeighbourRequest request = ByIds({9, -1}, 2, v1::METRIC_DOT);
  request.set_missing(v1::MISSING_POLICY_SKIP);
  EXPECT_THAT(Search(request),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "targets.ids[1]=-1, must be >= 0"));
}

TEST_F(NeighbourTest, PoliciesThatASearchDoesNotNameAreRefused) {
  v1::NearestNeighbourRequest request = ByIds({0}, 2, v1::METRIC_DOT);
  request.set_missing(v1::MISSING_POLICY_ZERO);
  const absl::Status status = Search(request);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                              "missing=MISSING_POLICY_ZERO (2), allowed: MISSING_POLICY_ERROR (1), "
                              "MISSING_POLICY_SKIP (4)"));
  EXPECT_EQ(FieldOf(status), "missing");
}

TEST(NeighbourKeylessTest, KeysAskedOfATableWithoutKeys) {
  Services services(TablesOf(CountingTable("items", 5, 2)));
  v1::NearestNeighbourRequest request = ByIds({0}, 1, v1::METRIC_DOT);
  request.set_return_keys(true);
  v1::NearestNeighbourResponse response;
  EXPECT_THAT(
      services.Call("NearestNeighbour", request, &response),
      IsError(StatusCode::kFailedPrecondition, "NO_KEYS", "table \"items\" has no keys; load it with vocab=FILE"));
}

TEST(NeighbourNonFiniteTest, RowsThatAreNotFiniteAreNoTargets) {
  Services services(TablesOf(FloatTable("odd", 2, {1, 2, NAN, 0, 3, 4}, {"a", "odd", "c"})));
  v1::NearestNeighbourRequest request;
  request.mutable_targets()->mutable_rows()->mutable_keys()->add_values("odd");
  request.set_k(3);
  v1::NearestNeighbourResponse response;
  EXPECT_THAT(
      services.Call("NearestNeighbour", request, &response),
      IsError(StatusCode::kFailedPrecondition, "NON_FINITE_ROW",
              "targets.keys[0] \"odd\" is row 1 of table \"odd\", which holds NaN or infinity and has no score"));
  ASSERT_EQ(services.Call("NearestNeighbour", ByIds({0}, 3, v1::METRIC_DOT), &response), absl::OkStatus());
  EXPECT_THAT(response.results(0).ids(), ElementsAre(2));
}

TEST(NeighbourLimitTest, QueriesAtTheLimitAreServedAndOneMoreRefused) {
  RequestLimits limits;
  limits.max_queries = 3;
  Services services(TablesOf(ToyTable()), limits);
  v1::NearestNeighbourResponse response;
  EXPECT_EQ(services.Call("NearestNeighbour", ByIds({0, 1, 2}, 1, v1::METRIC_DOT), &response), absl::OkStatus());
  EXPECT_THAT(services.Call("NearestNeighbour", ByIds({0, 1, 2, 3}, 1, v1::METRIC_DOT), &response),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "targets has 4 queries, limit 3 (--max-queries); the largest batch that fits is 3"));
}

TEST(NeighbourLimitTest, AnswerWithVectorsIsMeasuredBeforeTheSearch) {
  RequestLimits limits;
  limits.max_response_bytes = 100000;
  Services services(TablesOf(CountingTable("items", 100, 256)), limits);
  v1::NearestNeighbourResponse response;
  v1::NearestNeighbourRequest request = ByIds(std::vector<int64_t>(20, 1), 10, v1::METRIC_DOT);
  request.set_return_vectors(true);
  absl::Status status = services.Call("NearestNeighbour", request, &response);
  EXPECT_EQ(DetailsOf(status).reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(MetricValue(services.metrics, "embedding_nn_rows_scanned_total", {}), 0);
  // 9 queries of 10 rows of 1024 bytes are 92,160 bytes and some; a tenth would pass 100,000.
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("bytes, limit 100000 (--max-response-bytes); the largest batch that fits is 9 queries with k=10"));
  v1::NearestNeighbourRequest fitting = ByIds(std::vector<int64_t>(9, 1), 10, v1::METRIC_DOT);
  fitting.set_return_vectors(true);
  EXPECT_EQ(services.Call("NearestNeighbour", fitting, &response), absl::OkStatus());
  v1::NearestNeighbourRequest wide = ByIds({1}, 100, v1::METRIC_DOT);
  wide.set_return_vectors(true);
  status = services.Call("NearestNeighbour", wide, &response);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the largest k that fits one query is 97"));
}

TEST(NeighbourLimitTest, LongKeysAreMeasuredWhenTheyAreKnown) {
  RequestLimits limits;
  limits.max_response_bytes = 2000;
  std::vector<std::string> keys;
  for (char c = 'a'; c < 'e'; ++c) keys.push_back(std::string(1000, c));
  Services services(TablesOf(FloatTable("long", 1, {1, 2, 3, 4}, keys)), limits);
  v1::NearestNeighbourResponse response;
  v1::NearestNeighbourRequest request = ByVectors(1, {1}, 1, v1::METRIC_DOT);
  request.set_return_keys(true);
  EXPECT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  request.set_k(3);
  const absl::Status status = services.Call("NearestNeighbour", request, &response);
  EXPECT_EQ(DetailsOf(status).reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(FieldOf(status), "return_keys");
}

// An index that never finishes by itself.
class StuckIndex final : public NeighbourIndex {
 public:
  void Start(NeighbourQuery, WorkerPool& pool, StopPredicate stop,
             std::function<void(NeighbourResult)> done) const override {
    pool.Submit(
        1,
        [stop](int) {
          while (!stop()) {
          }
        },
        [done = std::move(done)] {
          NeighbourResult result;
          result.outcome = WorkOutcome::kStopped;
          result.stats.rows_scanned = 7;
          done(std::move(result));
        });
  }
};

TEST(NeighbourStopTest, AStoppedSearchEndsTheCallAndCounts) {
  Services services(std::vector<std::string>{"stuck"});
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = "stuck";
  snapshot->table = FloatTable("stuck", 1, {1, 2});
  snapshot->index = std::make_unique<StuckIndex>();
  services.registry.Publish(snapshot);
  const auto call = std::make_shared<FakeCall>(BodyOf(ByIds({0}, 1, v1::METRIC_DOT).SerializeAsString()));
  call->StopAfterPolls(1000);
  services.methods.at("NearestNeighbour").handle(call);
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call->polls(), 1001);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_nn_rows_scanned_total", {}), 7);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_stage_seconds",
                        {{"grpc_method", "NearestNeighbour"}, {"stage", "queue"}}),
            1);
}

TEST(NeighbourStopTest, TheTableLivesUntilTheSearchHasEnded) {
  Services services(std::vector<std::string>{"stuck"});
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = "stuck";
  snapshot->table = FloatTable("stuck", 1, {1, 2});
  snapshot->index = std::make_unique<StuckIndex>();
  const std::weak_ptr<const Snapshot> watched = snapshot;
  services.registry.Publish(std::move(snapshot));
  const auto call = std::make_shared<FakeCall>(BodyOf(ByIds({0}, 1, v1::METRIC_DOT).SerializeAsString()));
  call->StopAfterPolls(100000);
  services.methods.at("NearestNeighbour").handle(call);
  for (const uint64_t version : {2, 3}) {  // two versions are kept, so the second one drives out the first
    auto replacement = std::make_shared<Snapshot>();
    replacement->name = "stuck";
    replacement->version = version;
    replacement->table = FloatTable("stuck", 1, {3, 4});
    services.registry.Publish(std::move(replacement));
  }
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  // The worker lets go of the old table a moment after the call's end.
  while (!watched.expired()) std::this_thread::yield();
}

TEST(NeighbourStopTest, ExpiredCallsDoNotReachTheIndex) {
  Services services(TablesOf(ToyTable()));
  const auto call = std::make_shared<FakeCall>(BodyOf(ByIds({0}, 1, v1::METRIC_DOT).SerializeAsString()));
  call->StopAfterPolls(0);
  services.methods.at("NearestNeighbour").handle(call);
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_expired_before_run_total", {{"grpc_method", "NearestNeighbour"}}),
            1);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_nn_rows_scanned_total", {}), 0);
}

TEST(NeighbourOverloadTest, SearchesBeyondTheQueueAreRefusedAtOnce) {
  AdmissionLimits admission;
  admission.max_queued_searches = 1;
  Services services(TablesOf(ToyTable()), {}, admission);
  absl::StatusOr<Admission::Ticket> place = services.admission.Admit(0, true);
  ASSERT_TRUE(place.ok());
  v1::NearestNeighbourResponse response;
  const absl::Status status = services.Call("NearestNeighbour", ByIds({0}, 1, v1::METRIC_DOT), &response);
  EXPECT_THAT(status, IsError(StatusCode::kResourceExhausted, "OVERLOADED",
                              "overloaded: 1 searches in flight, limit 1 (--max-queued-searches); retry after 100 ms"));
}

// A caller that sends one search after the other is never overload.
TEST(NeighbourOverloadTest, ThePlaceIsFreeBeforeTheCallerHears) {
  Services services(TablesOf(ToyTable()));
  for (const v1::NearestNeighbourRequest& request : {ByIds({0}, 1, v1::METRIC_DOT), ByIds({0}, 0, v1::METRIC_DOT)}) {
    const auto call = std::make_shared<FakeCall>(BodyOf(request.SerializeAsString()));
    int64_t searches_at_end = -1;
    call->OnEnd([&] { searches_at_end = services.admission.queued_searches(); });
    services.methods.at("NearestNeighbour").handle(call);
    EXPECT_EQ(call->status().ok(), request.k() == 1);
    EXPECT_EQ(searches_at_end, 0);
  }
}

}  // namespace
}  // namespace embedding::testing
