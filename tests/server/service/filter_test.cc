// Filter and threshold of NearestNeighbour as a caller sees them.
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

// By dot, the toy table's rows score 2 (robot), 1.7 (arm), 0 (box) and -0.5 (tool) beside robot's vector.
v1::NearestNeighbourRequest ToRobot(v1::Metric metric = v1::METRIC_DOT) {
  v1::NearestNeighbourRequest request;
  SetVectors(request.mutable_targets()->mutable_vectors(), 3, {1, 0, 1});
  request.set_k(10);
  request.set_metric(metric);
  return request;
}

void SetIds(v1::IdList* list, const std::vector<int64_t>& ids) {
  list->mutable_values()->Assign(ids.begin(), ids.end());
}

class FilterTest : public ::testing::Test {
 protected:
  // The ids found.
  std::vector<int64_t> Found(const v1::NearestNeighbourRequest& request) {
    EXPECT_EQ(services_.Call("NearestNeighbour", request, &response_), absl::OkStatus());
    if (response_.results_size() != 1) return {-1};
    return {response_.results(0).ids().begin(), response_.results(0).ids().end()};
  }

  absl::Status Refusal(const v1::NearestNeighbourRequest& request) {
    return services_.Call("NearestNeighbour", request, &response_);
  }

  Services services_{TablesOf(ToyTable())};
  v1::NearestNeighbourRequest request_ = ToRobot();
  v1::NearestNeighbourResponse response_;
};

TEST_F(FilterTest, AllowDenyAndRangeHoldTogether) {
  EXPECT_THAT(Found(request_), ElementsAre(0, 1, 2, 3));
  SetIds(request_.mutable_filter()->mutable_allow(), {3, 1, 2, 1});
  EXPECT_THAT(Found(request_), ElementsAre(1, 2, 3));
  SetIds(request_.mutable_filter()->mutable_deny(), {1, 1});
  EXPECT_THAT(Found(request_), ElementsAre(2, 3));
  request_.mutable_filter()->set_end_row(3);
  EXPECT_THAT(Found(request_), ElementsAre(2));
  request_.mutable_filter()->set_first_row(3);
  EXPECT_THAT(Found(request_), IsEmpty());
}

TEST_F(FilterTest, KCountsEligibleRowsAlone) {
  SetIds(request_.mutable_filter()->mutable_deny(), {0, 1});
  request_.set_k(1);
  EXPECT_THAT(Found(request_), ElementsAre(2));
}

TEST_F(FilterTest, FilterAndTheQuerysOwnRowHoldTogether) {
  v1::NearestNeighbourRequest request;
  SetIds(request.mutable_targets()->mutable_rows()->mutable_ids(), {0});
  request.set_k(4);
  request.set_metric(v1::METRIC_DOT);
  request.mutable_filter()->set_end_row(3);
  EXPECT_THAT(Found(request), ElementsAre(1, 2));
  request.set_include_inputs(true);
  EXPECT_THAT(Found(request), ElementsAre(0, 1, 2));
}

TEST_F(FilterTest, PresentAndEmptyAllowLetsNothingThrough) {
  request_.mutable_filter()->mutable_allow();
  request_.set_return_keys(true);
  request_.set_return_vectors(true);
  EXPECT_THAT(Found(request_), IsEmpty());
  EXPECT_THAT(ShapeOf(response_.results(0).vectors()), ElementsAre(0, 3));
}

TEST_F(FilterTest, EmptyFilterAndEmptyDenyLetAllThrough) {
  request_.mutable_filter()->mutable_deny();
  EXPECT_THAT(Found(request_), ElementsAre(0, 1, 2, 3));
}

TEST_F(FilterTest, IdsBeyondTheTableNameNoRow) {
  SetIds(request_.mutable_filter()->mutable_allow(), {4, std::numeric_limits<int64_t>::max(), 3});
  EXPECT_THAT(Found(request_), ElementsAre(3));
  SetIds(request_.mutable_filter()->mutable_deny(), {4, std::numeric_limits<int64_t>::max()});
  EXPECT_THAT(Found(request_), ElementsAre(3));
}

TEST_F(FilterTest, RangesBeyondTheTableEndWithIt) {
  request_.mutable_filter()->set_first_row(2);
  EXPECT_THAT(Found(request_), ElementsAre(2, 3));  // end_row 0: the end
  request_.mutable_filter()->set_end_row(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(Found(request_), ElementsAre(2, 3));
  request_.mutable_filter()->set_first_row(4);
  EXPECT_THAT(Found(request_), IsEmpty());
  request_.mutable_filter()->set_first_row(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(Found(request_), IsEmpty());
}

TEST_F(FilterTest, ThresholdIncludesItself) {
  request_.set_score_threshold(1.7f);
  EXPECT_THAT(Found(request_), ElementsAre(0, 1));
  request_.set_score_threshold(std::nextafter(1.7f, 2.0f));
  EXPECT_THAT(Found(request_), ElementsAre(0));
  request_.set_score_threshold(0);
  EXPECT_THAT(Found(request_), ElementsAre(0, 1, 2));
  request_.set_score_threshold(-std::numeric_limits<float>::max());
  EXPECT_THAT(Found(request_), ElementsAre(0, 1, 2, 3));
}

TEST_F(FilterTest, ThresholdOfADistanceIsAnUpperOne) {
  // Distances from robot: 0; sqrt(.01 + .01 + .04); box sqrt(3); tool sqrt(4.25).
  request_ = ToRobot(v1::METRIC_EUCLIDEAN);
  request_.set_score_threshold(std::sqrt(3.0f));
  EXPECT_THAT(Found(request_), ElementsAre(0, 1, 2));
  request_.set_score_threshold(std::nextafter(std::sqrt(3.0f), 0.0f));
  EXPECT_THAT(Found(request_), ElementsAre(0, 1));
  request_.set_score_threshold(0);
  EXPECT_THAT(Found(request_), ElementsAre(0));
  request_.set_score_threshold(-1);
  EXPECT_THAT(Found(request_), IsEmpty());
}

TEST_F(FilterTest, ThresholdHoldsWithoutKOfItsOwn) {
  request_.set_score_threshold(1);
  request_.set_k(1);
  EXPECT_THAT(Found(request_), ElementsAre(0));
}

struct WrongFilter {
  const char* name;
  void (*change)(v1::NearestNeighbourRequest&);
  std::string field;
  std::string message;
};

void PrintTo(const WrongFilter& wrong, std::ostream* out) { *out << wrong.name; }

class WrongFilterTest : public FilterTest, public ::testing::WithParamInterface<WrongFilter> {};

TEST_P(WrongFilterTest, IsRefused) {
  GetParam().change(request_);
  const absl::Status status = Refusal(request_);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", GetParam().message));
  EXPECT_EQ(FieldOf(status), GetParam().field);
}

using Request = v1::NearestNeighbourRequest;
INSTANTIATE_TEST_SUITE_P(
    Cases, WrongFilterTest,
    ::testing::Values(
        WrongFilter{"NegativeAllowed",
                    [](Request& r) {
                      SetIds(r.mutable_filter()->mutable_allow(), {1, 9, -1});
                    },
                    "filter.allow.values[2]", "filter.allow[2]=-1, must be >= 0"},
        WrongFilter{"NegativeDenied", [](Request& r) { SetIds(r.mutable_filter()->mutable_deny(), {-7}); },
                    "filter.deny.values[0]", "filter.deny[0]=-7, must be >= 0"},
        WrongFilter{"TwoDimensions",
                    [](Request& r) {
                      SetIds(r.mutable_filter()->mutable_allow(), {1, 2});
                      r.mutable_filter()->mutable_allow()->add_shape(1);
                      r.mutable_filter()->mutable_allow()->add_shape(2);
                    },
                    "filter.allow.shape", "filter.allow.shape has 2 dimensions, must have 1: only Lookup takes more"},
        WrongFilter{"WrongSize",
                    [](Request& r) {
                      SetIds(r.mutable_filter()->mutable_deny(), {1, 2});
                      r.mutable_filter()->mutable_deny()->add_shape(3);
                    },
                    "filter.deny.shape", "filter.deny.shape is [3], filter.deny has 2 entries"},
        WrongFilter{"NegativeFirstRow", [](Request& r) { r.mutable_filter()->set_first_row(-1); }, "filter.first_row",
                    "filter.first_row=-1, must be >= 0"},
        WrongFilter{"NegativeEndRow", [](Request& r) { r.mutable_filter()->set_end_row(-2); }, "filter.end_row",
                    "filter.end_row=-2, must be 0 (the end of the table) or >= 0, the first_row"},
        WrongFilter{"EndBeforeFirst",
                    [](Request& r) {
                      r.mutable_filter()->set_first_row(3);
                      r.mutable_filter()->set_end_row(2);
                    },
                    "filter.end_row", "filter.end_row=2, must be 0 (the end of the table) or >= 3, the first_row"},
        WrongFilter{"NanThreshold", [](Request& r) { r.set_score_threshold(NAN); }, "score_threshold",
                    "score_threshold is NaN, must be finite"},
        WrongFilter{"InfiniteThreshold", [](Request& r) { r.set_score_threshold(INFINITY); }, "score_threshold",
                    "score_threshold is Infinity, must be finite"},
        WrongFilter{"NegativeInfiniteThreshold", [](Request& r) { r.set_score_threshold(-INFINITY); },
                    "score_threshold", "score_threshold is -Infinity, must be finite"}),
    [](const auto& test) { return test.param.name; });

TEST(FilterLimitTest, IdsAtTheLimitAreServedAndOneMoreRefused) {
  RequestLimits limits;
  limits.max_filter_ids = 5;
  Services services(TablesOf(ToyTable()), limits);
  v1::NearestNeighbourRequest request = ToRobot();
  SetIds(request.mutable_filter()->mutable_allow(), {0, 1, 2});
  SetIds(request.mutable_filter()->mutable_deny(), {0, 7});
  v1::NearestNeighbourResponse response;
  ASSERT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  EXPECT_THAT(response.results(0).ids(), ElementsAre(1, 2));
  request.mutable_filter()->mutable_deny()->add_values(9);
  const absl::Status status = services.Call("NearestNeighbour", request, &response);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                              "filter has 6 ids, limit 5 (--max-filter-ids); the largest lists that fit hold 5 ids "
                              "together"));
  EXPECT_EQ(FieldOf(status), "filter");
}

TEST(FilterLimitTest, AnswerIsMeasuredByWhatTheFilterLetsThrough) {
  RequestLimits limits;
  limits.max_response_bytes = 10000;
  Services services(TablesOf(CountingTable("items", 100, 256)), limits);
  v1::NearestNeighbourRequest request;
  SetIds(request.mutable_targets()->mutable_rows()->mutable_ids(), {50});
  request.set_k(100);
  request.set_return_vectors(true);
  v1::NearestNeighbourResponse response;
  EXPECT_EQ(DetailsOf(services.Call("NearestNeighbour", request, &response)).reason, "LIMIT_EXCEEDED");
  request.mutable_filter()->set_end_row(9);  // 9 rows of 1024 bytes
  ASSERT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  EXPECT_EQ(response.results(0).ids_size(), 9);
  request.mutable_filter()->set_end_row(10);
  EXPECT_THAT(std::string(services.Call("NearestNeighbour", request, &response).message()),
              HasSubstr("the largest k that fits one query is 9"));
}

TEST(FilterLimitTest, ListsCountAsBytesInFlight) {
  AdmissionLimits admission;
  admission.max_in_flight_bytes = 9000;
  Services services(TablesOf(CountingTable("items", 100, 4)), {}, admission);
  const absl::StatusOr<Admission::Ticket> another = services.admission.Admit(1, /*search=*/false);
  ASSERT_TRUE(another.ok());
  v1::NearestNeighbourRequest request;
  SetIds(request.mutable_targets()->mutable_rows()->mutable_ids(), {50});
  request.set_k(1);
  v1::NearestNeighbourResponse response;
  SetIds(request.mutable_filter()->mutable_deny(), std::vector<int64_t>(1000, 7));  // 8,000 bytes
  EXPECT_EQ(services.Call("NearestNeighbour", request, &response), absl::OkStatus());
  // The worker may still be letting go of what it has answered.
  while (services.admission.in_flight_bytes() > 1) std::this_thread::yield();
  SetIds(request.mutable_filter()->mutable_deny(), std::vector<int64_t>(1125, 7));  // 9,000 bytes
  EXPECT_EQ(DetailsOf(services.Call("NearestNeighbour", request, &response)).reason, "OVERLOADED");
  EXPECT_EQ(services.admission.in_flight_bytes(), 1);
}

}  // namespace
}  // namespace embedding::testing
