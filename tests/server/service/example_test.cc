// NearestNeighbour by examples as a caller sees it.
#include <cfloat>
#include <cmath>
#include <limits>

#include "server/service/example_queries.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::IsEmpty;

void AddIds(google::protobuf::RepeatedPtrField<v1::VectorSet>* sets, const std::vector<int64_t>& ids) {
  sets->Add()->mutable_rows()->mutable_ids()->mutable_values()->Assign(ids.begin(), ids.end());
}

void AddVectors(google::protobuf::RepeatedPtrField<v1::VectorSet>* sets, int64_t dim,
                const std::vector<float>& floats) {
  SetVectors(sets->Add()->mutable_vectors(), dim, floats);
}

class ExampleTest : public ::testing::Test {
 protected:
  ExampleTest() {
    request_.set_k(10);
    request_.set_metric(v1::METRIC_DOT);
    query_ = request_.mutable_examples()->add_queries();
  }

  absl::Status Search() { return services_.Call("NearestNeighbour", request_, &response_); }

  // Of the first query.
  std::vector<int64_t> Ids() {
    EXPECT_EQ(Search(), absl::OkStatus());
    if (response_.results_size() == 0) return {-1};
    return {response_.results(0).ids().begin(), response_.results(0).ids().end()};
  }
  std::vector<float> Scores() { return {response_.results(0).scores().begin(), response_.results(0).scores().end()}; }

  // Rows of lengths 5, 2, 0 and 13, with names.
  Services services_{TablesOf(FloatTable("plane", 2, {3, 4, 0, 2, 0, 0, -5, 12}, {"a", "b", "zero", "c"}))};
  v1::NearestNeighbourRequest request_;
  v1::ExampleQuery* query_ = nullptr;
  v1::NearestNeighbourResponse response_;
};

TEST_F(ExampleTest, RowsCountAsUnitVectorsAndVectorsAsGiven) {
  // (.6, .8) of a, plus (6, -4) as given, less (0, 1) of b, over 3: (2.2, -1.4).
  AddIds(query_->mutable_positive(), {0});
  AddVectors(query_->mutable_positive(), 2, {6, -4});
  query_->add_negative()->mutable_rows()->mutable_keys()->add_values("b");
  EXPECT_THAT(Ids(), ElementsAre(2, 3));  // a and b are left out
  EXPECT_THAT(Scores(), ElementsAre(0, FloatEq(-27.8f)));
  request_.set_include_inputs(true);
  EXPECT_THAT(Ids(), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(Scores(), ElementsAre(FloatEq(1), 0, FloatEq(-2.8f), FloatEq(-27.8f)));
}

TEST_F(ExampleTest, WeightsScaleEachVectorOfTheSetsBefore) {
  // 2 (.6, .8) + 0.5 (0, 1) + 0 (zero) - 1.5 (1, 1), over 4: (-.3 / 4, .6 / 4).
  AddIds(query_->mutable_positive(), {0, 1});
  AddIds(query_->mutable_positive(), {2});
  AddVectors(query_->mutable_negative(), 2, {1, 1});
  for (const float weight : {2.0f, 0.5f, 0.0f}) query_->add_positive_weights(weight);
  query_->add_negative_weights(1.5f);
  request_.set_include_inputs(true);
  EXPECT_THAT(Ids(), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(Scores(), ElementsAre(FloatEq(2.175f), FloatEq(.375f), FloatEq(.3f), 0));
}

TEST_F(ExampleTest, AZeroRowAddsNothingButItsWeight) {
  AddIds(query_->mutable_positive(), {2, 0});  // (.6, .8) / 2
  EXPECT_THAT(Ids(), ElementsAre(3, 1));
  EXPECT_THAT(Scores(), ElementsAre(FloatEq(3.3f), FloatEq(.8f)));
}

TEST_F(ExampleTest, AQueryThatBecomesZeroScoresZeroByCosine) {
  AddIds(query_->mutable_positive(), {0});
  AddIds(query_->mutable_negative(), {0});
  request_.set_metric(v1::METRIC_COSINE);
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Scores(), ElementsAre(0, 0, 0));
}

TEST_F(ExampleTest, EachQueryHasItsOwnExclusionsAndAnswer) {
  AddIds(query_->mutable_positive(), {0, 1, 3, 0});
  AddVectors(request_.mutable_examples()->add_queries()->mutable_positive(), 2, {0, 1});
  EXPECT_THAT(Ids(), ElementsAre(2));
  ASSERT_EQ(response_.results_size(), 2);
  EXPECT_THAT(response_.results(1).ids(), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(response_.results(1).scores(), ElementsAre(12, 4, 2, 0));
}

TEST_F(ExampleTest, EmptySetsBesideOthersAreFine) {
  AddIds(query_->mutable_positive(), {});
  AddVectors(query_->mutable_negative(), 2, {0, 1});
  EXPECT_THAT(Ids(), ElementsAre(2, 1, 0, 3));
}

TEST_F(ExampleTest, NoQueriesGiveNoResults) {
  request_.mutable_examples()->Clear();
  ASSERT_EQ(Search(), absl::OkStatus());
  EXPECT_EQ(response_.results_size(), 0);
}

TEST_F(ExampleTest, TheLargestNumbersMakeAQuery) {
  AddVectors(query_->mutable_positive(), 2, {FLT_MAX, 0, FLT_MAX, 0});
  query_->add_positive_weights(FLT_MAX);
  query_->add_positive_weights(std::numeric_limits<float>::denorm_min());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Scores(), ElementsAre(FLT_MAX, 0, 0, -FLT_MAX));
}

TEST_F(ExampleTest, FilterAndThresholdHoldForExamplesToo) {
  AddVectors(query_->mutable_positive(), 2, {0, 1});
  request_.mutable_filter()->mutable_deny()->add_values(3);
  request_.set_score_threshold(2);
  EXPECT_THAT(Ids(), ElementsAre(0, 1));
}

TEST_F(ExampleTest, RowsThatAreNamedAreCounted) {
  AddIds(query_->mutable_positive(), {0, 1, 3});
  ASSERT_EQ(Search(), absl::OkStatus());
  EXPECT_EQ(MetricValue(services_.metrics, "embedding_rows_total", {{"grpc_method", "NearestNeighbour"}}), 3);
}

struct WrongExample {
  const char* name;
  void (*change)(v1::NearestNeighbourRequest&);
  std::string field;
  std::string message;
};

void PrintTo(const WrongExample& wrong, std::ostream* out) { *out << wrong.name; }

// A query before the wrong one is fine.
class WrongExampleTest : public ExampleTest, public ::testing::WithParamInterface<WrongExample> {};

TEST_P(WrongExampleTest, IsRefused) {
  AddIds(query_->mutable_positive(), {0});
  request_.mutable_examples()->add_queries();
  GetParam().change(request_);
  const absl::Status status = Search();
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", GetParam().message));
  EXPECT_EQ(FieldOf(status), GetParam().field);
}

using Request = v1::NearestNeighbourRequest;
v1::ExampleQuery* Last(Request& request) { return request.mutable_examples()->mutable_queries(1); }

INSTANTIATE_TEST_SUITE_P(
    Cases, WrongExampleTest,
    ::testing::Values(
        WrongExample{"NoSets", [](Request&) {}, "examples.queries[1]",
                     "examples.queries[1] has no example, must have at least one vector"},
        WrongExample{"EmptySets",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_positive(), {});
                       AddVectors(Last(r)->mutable_negative(), 2, {});
                     },
                     "examples.queries[1]", "examples.queries[1] has no example, must have at least one vector"},
        WrongExample{"UnsetSet",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_positive(), {0});
                       Last(r)->add_positive();
                     },
                     "examples.queries[1].positive[1]",
                     "examples.queries[1].positive[1] is empty, must hold rows or vectors"},
        WrongExample{"NegativeId",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_negative(), {1, -5});
                     },
                     "examples.queries[1].negative[0].rows.ids.values[1]",
                     "examples.queries[1].negative[0].ids[1]=-5, must be >= 0"},
        WrongExample{"Width",
                     [](Request& r) {
                       AddVectors(Last(r)->mutable_positive(), 3, {1, 2, 3});
                     },
                     "examples.queries[1].positive[0].vectors.shape",
                     "examples.queries[1].positive[0].vectors has 3 values a row, table \"plane\" is 2 wide"},
        WrongExample{"Nan",
                     [](Request& r) {
                       AddVectors(Last(r)->mutable_negative(), 2, {1, NAN});
                     },
                     "examples.queries[1].negative[0].vectors",
                     "examples.queries[1].negative[0].vectors[0][1] is NaN, must be finite"},
        WrongExample{"TooFewWeights",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_positive(), {0, 1});
                       AddIds(Last(r)->mutable_positive(), {3});
                       Last(r)->add_positive_weights(1);
                       Last(r)->add_positive_weights(1);
                     },
                     "examples.queries[1].positive_weights",
                     "examples.queries[1].positive_weights has 2 entries, examples.queries[1].positive has 3 vectors: "
                     "must be as many, or none for 1 each"},
        WrongExample{"WeightsWithoutVectors",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_positive(), {0, 1});
                       Last(r)->add_negative_weights(1);
                     },
                     "examples.queries[1].negative_weights",
                     "examples.queries[1].negative_weights has 1 entries, examples.queries[1].negative has 0 vectors: "
                     "must be as many, or none for 1 each"},
        WrongExample{"NegativeWeight",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_negative(), {0, 1});
                       Last(r)->add_negative_weights(1);
                       Last(r)->add_negative_weights(-.5f);
                     },
                     "examples.queries[1].negative_weights[1]",
                     "examples.queries[1].negative_weights[1]=-0.5, must be finite and >= 0"},
        WrongExample{"NanWeight",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_positive(), {0});
                       Last(r)->add_positive_weights(NAN);
                     },
                     "examples.queries[1].positive_weights[0]",
                     "examples.queries[1].positive_weights[0] is NaN, must be finite and >= 0"},
        WrongExample{"InfiniteWeight",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_positive(), {0});
                       Last(r)->add_positive_weights(INFINITY);
                     },
                     "examples.queries[1].positive_weights[0]",
                     "examples.queries[1].positive_weights[0]=inf, must be finite and >= 0"},
        WrongExample{"AllWeightsZero",
                     [](Request& r) {
                       AddIds(Last(r)->mutable_positive(), {0});
                       AddIds(Last(r)->mutable_negative(), {1});
                       Last(r)->add_positive_weights(0);
                       Last(r)->add_negative_weights(-0.0f);
                     },
                     "examples.queries[1]", "all weights of examples.queries[1] are 0, one must be above 0"}),
    [](const auto& test) { return test.param.name; });

TEST_F(ExampleTest, MissingRowsAreNamed) {
  AddIds(query_->mutable_positive(), {0});
  AddIds(query_->mutable_negative(), {1, 4});
  absl::Status status = Search();
  EXPECT_THAT(status, IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE",
                              "examples.queries[0].negative[0].ids[1] is 4, table \"plane\" has 4 rows"));
  EXPECT_EQ(FieldOf(status), "examples.queries[0].negative[0].rows.ids.values[1]");
  query_->add_positive()->mutable_rows()->mutable_keys()->add_values("d");
  EXPECT_THAT(Search(), IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                                "examples.queries[0].positive[1].keys[0] \"d\" is not a key of table \"plane\"; 1 of 1 "
                                "missing, at 0"));
}

TEST_F(ExampleTest, SkipGivesAQueryThatNamesAMissingRowAnEmptyResult) {
  AddIds(query_->mutable_positive(), {0, 4});
  AddIds(request_.mutable_examples()->add_queries()->mutable_positive(), {0});
  request_.mutable_examples()->add_queries()->add_negative()->mutable_rows()->mutable_keys()->add_values("d");
  AddVectors(request_.mutable_examples()->add_queries()->mutable_positive(), 2, {0, 1});
  request_.set_missing(v1::MISSING_POLICY_SKIP);
  EXPECT_THAT(Ids(), IsEmpty());
  ASSERT_EQ(response_.results_size(), 4);
  EXPECT_THAT(response_.results(1).ids(), ElementsAre(3, 1, 2));
  EXPECT_THAT(response_.results(2).ids(), IsEmpty());
  EXPECT_THAT(response_.results(3).ids(), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(response_.missing_positions(), ElementsAre(0, 2));
}

TEST(ExampleNonFiniteTest, RowsThatAreNotFiniteAreNoExamples) {
  Services services(TablesOf(FloatTable("odd", 2, {1, 2, NAN, 0, 3, 4})));
  v1::NearestNeighbourRequest request;
  AddIds(request.mutable_examples()->add_queries()->mutable_positive(), {0, 1});
  request.set_k(3);
  v1::NearestNeighbourResponse response;
  EXPECT_THAT(services.Call("NearestNeighbour", request, &response),
              IsError(StatusCode::kFailedPrecondition, "NON_FINITE_ROW",
                      "examples.queries[0].positive[0].ids[1] is row 1 of table \"odd\", which holds NaN or infinity "
                      "and has no score"));
}

TEST(ExampleLimitTest, QueriesAndExamplesAtTheirLimitsAreServedAndOneMoreRefused) {
  RequestLimits limits;
  limits.max_queries = 2;
  limits.max_ids = 5;
  Services services(TablesOf(ToyTable()), limits);
  v1::NearestNeighbourRequest request;
  request.set_k(1);
  AddIds(request.mutable_examples()->add_queries()->mutable_positive(), {0, 1});
  v1::ExampleQuery* last = request.mutable_examples()->add_queries();
  AddIds(last->mutable_positive(), {0});
  AddVectors(last->mutable_negative(), 3, {1, 2, 3, 4, 5, 6});
  v1::NearestNeighbourResponse response;
  EXPECT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  AddIds(last->mutable_positive(), {3});
  absl::Status status = services.Call("NearestNeighbour", request, &response);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                              "examples has 6 vectors in all, limit 5 (--max-ids); the largest batch that fits is 5"));
  EXPECT_EQ(FieldOf(status), "examples");
  AddIds(request.mutable_examples()->add_queries()->mutable_positive(), {0});
  status = services.Call("NearestNeighbour", request, &response);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                              "examples has 3 queries, limit 2 (--max-queries); the largest batch that fits is 2"));
  EXPECT_EQ(FieldOf(status), "examples.queries");
}

// Enough work that the pool computes the queries before it searches.
TEST(ExampleBatchTest, ManyQueriesEqualThoseAskedAlone) {
  Services services(TablesOf(CountingTable("items", 300, 64)));
  v1::NearestNeighbourRequest batch;
  batch.set_k(5);
  batch.set_metric(v1::METRIC_EUCLIDEAN);
  for (int64_t i = 0; i < 100; ++i) {
    v1::ExampleQuery* query = batch.mutable_examples()->add_queries();
    AddIds(query->mutable_positive(), {i, i + 100});
    AddIds(query->mutable_negative(), {299 - i});
  }
  v1::NearestNeighbourResponse together;
  ASSERT_EQ(services.Call("NearestNeighbour", batch, &together), absl::OkStatus());
  ASSERT_EQ(together.results_size(), 100);
  for (int i = 0; i < 100; i += 7) {
    v1::NearestNeighbourRequest one = batch;
    *one.mutable_examples()->mutable_queries() = {batch.examples().queries().begin() + i,
                                                  batch.examples().queries().begin() + i + 1};
    v1::NearestNeighbourResponse alone;
    ASSERT_EQ(services.Call("NearestNeighbour", one, &alone), absl::OkStatus());
    EXPECT_EQ(alone.results(0).SerializeAsString(), together.results(i).SerializeAsString()) << i;
  }
}

TEST(ExampleStopTest, AStoppedCallEndsWhileItsQueriesAreComputed) {
  Services services(TablesOf(CountingTable("items", 300, 64)));
  v1::NearestNeighbourRequest request;
  request.set_k(5);
  for (int64_t i = 0; i < 200; ++i) {
    AddIds(request.mutable_examples()->add_queries()->mutable_positive(), {i, i + 1, i + 2});
  }
  const auto call = std::make_shared<FakeCall>(BodyOf(request.SerializeAsString()));
  call->StopAfterPolls(10);
  services.methods.at("NearestNeighbour").handle(call);
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_nn_rows_scanned_total", {}), 0);
}

// Two bytes of a request are enough for an empty query or set, a message of each takes hundreds.
TEST(ExampleCountsTest, AreCheckedBeforeTheBodyIsParsed) {
  const RequestLimits limits;
  v1::NearestNeighbourRequest request;
  const auto check = [&](const std::string& body) {
    return CheckExampleCounts(FieldCounts(body, *v1::NearestNeighbourRequest::descriptor()), limits);
  };
  for (int i = 0; i < limits.max_queries; ++i) request.mutable_examples()->add_queries();
  EXPECT_EQ(check(request.SerializeAsString()), absl::OkStatus());
  request.mutable_examples()->add_queries();
  absl::Status refused = check(request.SerializeAsString());
  EXPECT_EQ(DetailsOf(refused).reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(FieldOf(refused), "examples.queries");

  request.Clear();
  v1::ExampleQuery* query = request.mutable_examples()->add_queries();
  for (int64_t i = 0; i < limits.max_ids; ++i) i % 2 == 0 ? query->add_positive() : query->add_negative();
  EXPECT_EQ(check(request.SerializeAsString()), absl::OkStatus());
  query->add_negative();
  refused = check(request.SerializeAsString());
  EXPECT_EQ(DetailsOf(refused).reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(FieldOf(refused), "examples");

  request.Clear();
  query = request.mutable_examples()->add_queries();
  AddIds(query->mutable_positive(), std::vector<int64_t>(static_cast<size_t>(limits.max_ids) - 1, 1));
  query->add_negative()->mutable_rows()->mutable_keys()->add_values("");
  EXPECT_EQ(check(request.SerializeAsString()), absl::OkStatus());
  query->mutable_negative(0)->mutable_rows()->mutable_keys()->add_values("");
  EXPECT_THAT(
      check(request.SerializeAsString()),
      IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
              "examples has 65537 vectors in all, limit 65536 (--max-ids); the largest batch that fits is 65536"));

  request.Clear();
  query = request.mutable_examples()->add_queries();
  for (int i = 0; i < kMaxRank; ++i) query->mutable_positive()->Add()->mutable_vectors()->add_shape(1);
  query->mutable_positive(0)->mutable_vectors()->mutable_shape()->Resize(kMaxRank * kMaxRank - kMaxRank + 1, 1);
  EXPECT_EQ(check(request.SerializeAsString()), absl::OkStatus());
  query->mutable_positive(0)->mutable_vectors()->add_shape(1);
  EXPECT_THAT(check(request.SerializeAsString()),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "the shapes in examples have 65 dimensions together, 8 sets of vectors have at most 8 each"));

  EXPECT_EQ(check("\x1a\x7f"), absl::OkStatus());  // cut short: for the parser to refuse
}

}  // namespace
}  // namespace embedding::testing
