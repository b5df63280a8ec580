#include "client/embedding_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/server_context.h"
#include "proto/status_codec.h"
#include "tests/client/fake_service.h"

namespace embedding::client {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::FakeService;

std::unique_ptr<EmbeddingClient> ClientOf(const std::string& address, ClientOptions options = {}) {
  options.address = address;
  auto client = EmbeddingClient::Create(options);
  return client.ok() ? *std::move(client) : nullptr;
}

Ids CountingIds(int64_t count, std::vector<int64_t> shape = {}) {
  Ids ids{std::vector<int64_t>(static_cast<size_t>(count)), std::move(shape)};
  std::iota(ids.values.begin(), ids.values.end(), 0);
  return ids;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(EmbeddingClientTest, LookupInOnePartGivesRowsInOrderWithDuplicates) {
  FakeService fake({});
  const auto client = ClientOf(fake.address());
  const auto rows = client->Lookup({.table = {}, .rows = Ids{{7, 2, 7}, {}}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(3, 3));
  EXPECT_EQ(rows->embeddings.dtype, Dtype::kF32);
  EXPECT_THAT(rows->embeddings.ToFloats(), ElementsAre(700, 701, 702, 200, 201, 202, 700, 701, 702));
  EXPECT_EQ(rows->table, (TableStamp{"made-up", 1, "aa"}));
  EXPECT_EQ(fake.calls(), 1);
}

TEST(EmbeddingClientTest, LookupInPartsEqualsOneLookup) {
  FakeService whole({.rows = 5000, .max_ids = 5000});
  FakeService parted({.rows = 5000, .max_ids = 64});
  const LookupRequest request{.table = {}, .rows = CountingIds(1000, {10, 100})};
  const auto expected = ClientOf(whole.address())->Lookup(request);
  const auto joined = ClientOf(parted.address())->Lookup(request);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(whole.calls(), 1);
  EXPECT_EQ(parted.calls(), 16);
  EXPECT_THAT(joined->embeddings.shape, ElementsAre(10, 100, 3));
  EXPECT_EQ(joined->embeddings.shape, expected->embeddings.shape);
  EXPECT_EQ(joined->embeddings.data, expected->embeddings.data);
}

TEST(EmbeddingClientTest, MissingPositionsOfPartsCountFromTheStartOfTheBatch) {
  FakeService fake({.rows = 10, .max_ids = 3});
  const auto client = ClientOf(fake.address());
  LookupRequest request{.table = {}, .rows = Ids{{1, 99, 2, 98, 97, 3, 4}, {}}};
  request.missing = MissingPolicy::kZero;
  auto rows = client->Lookup(request);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->missing_positions, ElementsAre(1, 3, 4));
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(7, 3));
  request.missing = MissingPolicy::kSkip;
  rows = client->Lookup(request);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->missing_positions, ElementsAre(1, 3, 4));
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(4, 3));
  EXPECT_THAT(rows->embeddings.ToFloats(), ElementsAre(100, 101, 102, 200, 201, 202, 300, 301, 302, 400, 401, 402));
  EXPECT_EQ(fake.calls(), 6);
}

TEST(EmbeddingClientTest, PooledLookupsAreCutBetweenBags) {
  FakeService whole({}), parted({.max_ids = 4});
  LookupRequest request{.table = {}, .rows = CountingIds(9)};
  request.pooling = Pooling{.offsets = {0, 3, 3, 4, 8}, .weights = {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  const auto expected = ClientOf(whole.address())->Lookup(request);
  const auto joined = ClientOf(parted.address())->Lookup(request);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(parted.sizes(), ElementsAre(4, 4, 1));
  EXPECT_THAT(expected->embeddings.shape, ElementsAre(5, 3));
  EXPECT_EQ(joined->embeddings.shape, expected->embeddings.shape);
  EXPECT_EQ(joined->embeddings.ToFloats(), expected->embeddings.ToFloats());
  // As bags of two dimensions, which travel with offsets once they are cut.
  request.rows = CountingIds(8, {4, 2});
  request.pooling = Pooling{};
  const auto pairs = ClientOf(parted.address())->Lookup(request);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_THAT(pairs->embeddings.shape, ElementsAre(4, 3));
  EXPECT_THAT(pairs->embeddings.ToFloats(), ElementsAre(100, 102, 104, 500, 502, 504, 900, 902, 904, 1300, 1302, 1304));
}

TEST(EmbeddingClientTest, ABagOverALimitIsRefusedByTheServerByName) {
  FakeService fake({.max_ids = 4});
  LookupRequest request{.table = {}, .rows = CountingIds(7)};
  request.pooling = Pooling{.offsets = {0, 2}};
  const auto rows = ClientOf(fake.address())->Lookup(request);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(rows.status()), StartsWith("in ids[2..6], positions counted from there: given 5, limit 4"));
}

TEST(EmbeddingClientTest, AStreamGivesEachRequestItsOwnOutcomeInOrder) {
  FakeService fake({.rows = 10});
  const auto client = ClientOf(fake.address());
  const std::unique_ptr<LookupStream> stream = client->OpenLookupStream();
  for (const int64_t id : {3, 10, 4}) ASSERT_TRUE(stream->Write({.table = {}, .rows = Ids{{id}, {}}}).ok());
  EXPECT_EQ(stream->Write({.table = {}, .rows = Ids{{1, 2}, {3}}}).code(), absl::StatusCode::kInvalidArgument);
  stream->WritesDone();
  auto rows = stream->Read();
  ASSERT_TRUE(rows && rows->ok());
  EXPECT_THAT((*rows)->embeddings.ToFloats(), ElementsAre(300, 301, 302));
  EXPECT_EQ((*rows)->table, (TableStamp{"made-up", 1, "aa"}));
  rows = stream->Read();
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->status(), absl::OutOfRangeError("ids[0] is 10, table has 10 rows"));
  rows = stream->Read();
  ASSERT_TRUE(rows && rows->ok());
  EXPECT_THAT((*rows)->embeddings.ToFloats(), ElementsAre(400, 401, 402));
  EXPECT_FALSE(stream->Read());
  EXPECT_TRUE(stream->Finish().ok());
}

// A message that the library keeps back until something else is written would only leave with its keepalive.
TEST(EmbeddingClientTest, ABurstOnEachOfManyStreamsIsAnsweredAtOnce) {
  constexpr int kStreams = 100, kItems = 8;
  FakeService fake({});
  const auto client = ClientOf(fake.address());
  for (int i = 0; i < kStreams; ++i) {
    const auto stream = client->OpenLookupStream({.deadline = std::chrono::seconds(30)});
    for (int64_t j = 0; j < kItems; ++j) ASSERT_TRUE(stream->Write({.table = {}, .rows = Ids{{j}, {}}}).ok());
    for (int j = 0; j < kItems; ++j) {
      const auto rows = stream->Read();
      ASSERT_TRUE(rows && rows->ok()) << "stream " << i << ", answer " << j;
      EXPECT_EQ((*rows)->embeddings.ToFloats()[0], static_cast<float>(100 * j));
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
}

TEST(EmbeddingClientTest, AStreamSaysWhyItEnds) {
  FakeService fake({});
  const auto client = ClientOf(fake.address());
  const auto late = client->OpenLookupStream({.deadline = milliseconds(20)});
  EXPECT_FALSE(late->Read());
  EXPECT_EQ(late->Finish().code(), absl::StatusCode::kDeadlineExceeded);
  const auto cancelled = client->OpenLookupStream();
  cancelled->Cancel();
  EXPECT_FALSE(cancelled->Read());
  EXPECT_EQ(cancelled->Finish().code(), absl::StatusCode::kCancelled);
  // Dropped in the middle: no more than a cancel.
  const auto dropped = client->OpenLookupStream();
  EXPECT_TRUE(dropped->Write({.table = {}, .rows = CountingIds(3)}).ok());
}

TEST(EmbeddingClientTest, LookupByKeysIsSplitByKeys) {
  FakeService fake({.max_ids = 2});
  const auto rows = ClientOf(fake.address())->Lookup({.table = {"made-up", 1}, .rows = Keys{{"k3", "k1", "k2"}, {}}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->embeddings.ToFloats(), ElementsAre(300, 301, 302, 100, 101, 102, 200, 201, 202));
  EXPECT_THAT(fake.sizes(), ElementsAre(2, 1));
}

TEST(EmbeddingClientTest, AnswersStayUnderTheBytesThatServerAndClientAllow) {
  // 12 bytes a row; 256 are kept for the rest of the message.
  FakeService server_bound({.max_response_bytes = 256 + 12 * 10});
  ASSERT_TRUE(ClientOf(server_bound.address())->Lookup({.table = {}, .rows = CountingIds(25)}).ok());
  EXPECT_THAT(server_bound.sizes(), ElementsAre(10, 10, 5));

  FakeService client_bound({});
  ASSERT_TRUE(ClientOf(client_bound.address(), {.max_receive_bytes = 256 + 12 * 20})
                  ->Lookup({.table = {}, .rows = CountingIds(25)})
                  .ok());
  EXPECT_THAT(client_bound.sizes(), ElementsAre(20, 5));
}

TEST(EmbeddingClientTest, RequestsStayUnderTheirBytes) {
  FakeService fake({.max_request_bytes = 600});
  Keys keys;
  for (int i = 0; i < 100; ++i) keys.values.push_back("k" + std::string(40, '0') + std::to_string(i));
  const auto rows = ClientOf(fake.address())->Lookup({.table = {}, .rows = keys});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->embeddings.ToFloats().at(297), 9900);
  EXPECT_GT(fake.calls(), 10);
}

TEST(EmbeddingClientTest, ExamplesAreSplitAndJoinedInOrder) {
  FakeService fake({.max_ids = 5, .max_queries = 2});
  NearestNeighbourRequest request;
  for (int64_t i = 0; i < 5; ++i) {
    ExampleQuery& query = request.examples.emplace_back();
    query.positive = {Ids{{10 * i, 1}, {}}, Keys{{"k5"}, {}}};
    query.negative = {Vectors{{2, 0, 0}, 3}};
    query.positive_weights = {1, 2, 3};
  }
  request.k = 2;
  request.include_inputs = true;
  const auto found = ClientOf(fake.address())->NearestNeighbour(request);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(fake.sizes(), ElementsAre(1, 1, 1, 1, 1));  // four examples each, five at most in one call
  ASSERT_EQ(found->results.size(), 5u);
  EXPECT_THAT(found->results[4].ids, ElementsAre(45, 46));  // 40 + 1 + 5 - 2, and on
  const v1::NearestNeighbourRequest sent = fake.last_search();
  EXPECT_FALSE(sent.has_targets());
  EXPECT_THAT(sent.examples().queries(0).positive_weights(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(sent.examples().queries(0).negative_weights().empty());
}

TEST(EmbeddingClientTest, FilterAndThresholdGoAlongWithEveryPart) {
  FakeService fake({.max_queries = 2});
  NearestNeighbourRequest request;
  request.targets = CountingIds(5);
  request.filter.allow.emplace();
  request.filter.deny = {3, 4};
  request.filter.first_row = 5;
  request.filter.end_row = 9;
  request.score_threshold = 0;
  ASSERT_TRUE(ClientOf(fake.address())->NearestNeighbour(request).ok());
  EXPECT_EQ(fake.calls(), 3);
  const v1::NearestNeighbourRequest sent = fake.last_search();
  EXPECT_TRUE(sent.filter().has_allow());
  EXPECT_THAT(sent.filter().allow().values(), testing::IsEmpty());
  EXPECT_THAT(sent.filter().deny().values(), ElementsAre(3, 4));
  EXPECT_EQ(sent.filter().first_row(), 5);
  EXPECT_EQ(sent.filter().end_row(), 9);
  EXPECT_TRUE(sent.has_score_threshold());
  request.filter.allow.reset();
  request.score_threshold.reset();
  ASSERT_TRUE(ClientOf(fake.address())->NearestNeighbour(request).ok());
  EXPECT_FALSE(fake.last_search().filter().has_allow());
  EXPECT_FALSE(fake.last_search().has_score_threshold());
}

TEST(EmbeddingClientTest, MissingPositionsCountFromTheWholeBatch) {
  FakeService fake({.rows = 10, .max_queries = 2, .max_pairs = 2});
  NearestNeighbourRequest search;
  search.targets = Ids{{1, 10, 2, 3, 99}, {}};
  search.missing = MissingPolicy::kSkip;
  const auto found = ClientOf(fake.address())->NearestNeighbour(search);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->missing_positions, ElementsAre(1, 4));
  EXPECT_THAT(found->results[4].ids, testing::IsEmpty());
  SimilarityRequest pairs;
  pairs.left = Ids{{1, 10, 11}, {}};
  pairs.right = Ids{{12, 2, 13, 14}, {}};
  pairs.layout = Layout::kAllPairs;
  pairs.missing = MissingPolicy::kZero;
  const auto scores = ClientOf(fake.address())->Similarity(pairs);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_THAT(scores->missing_left, ElementsAre(1, 2));
  EXPECT_THAT(scores->missing_right, ElementsAre(0, 2, 3));
}

TEST(EmbeddingClientTest, MeansAreOneCallWhateverTheLimits) {
  FakeService fake({.max_ids = 2, .max_pairs = 1});
  SimilarityRequest request;
  request.left = Ids{{1, 2, 3}, {}};
  request.right = Vectors{{4, 0, 6, 0}, 2};
  request.reduce = Reduce::kMean;
  const auto result = ClientOf(fake.address())->Similarity(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->scores, ElementsAre(2005));
  EXPECT_THAT(result->shape, ElementsAre(1));
  EXPECT_EQ(fake.calls(), 1);
}

TEST(EmbeddingClientTest, TargetsAndExamplesTogetherAreRefused) {
  FakeService fake({});
  NearestNeighbourRequest request;
  request.targets = CountingIds(1);
  request.examples.emplace_back().positive = {CountingIds(1)};
  EXPECT_EQ(Message(ClientOf(fake.address())->NearestNeighbour(request).status()),
            "targets and examples are given, must be one of them");
  request.targets = Ids{};
  request.examples[0].negative = {Ids{}, Vectors{{1, 2, 3}, 2}};
  EXPECT_EQ(Message(ClientOf(fake.address())->NearestNeighbour(request).status()),
            "examples[0].negative[1] holds 3 values, which is no whole number of vectors of dim 2");
}

TEST(EmbeddingClientTest, EmptyLookupKeepsTheWidth) {
  FakeService fake({});
  const auto rows = ClientOf(fake.address())->Lookup({.table = {}, .rows = Ids{}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(0, 3));
  EXPECT_EQ(rows->embeddings.data, "");
}

TEST(EmbeddingClientTest, LimitsAndWidthAreAskedForOnce) {
  FakeService fake({});
  const auto client = ClientOf(fake.address());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client->Lookup({.table = {}, .rows = CountingIds(5)}).ok());
    ASSERT_TRUE(client->Similarity({.table = {}, .left = CountingIds(2), .right = CountingIds(2)}).ok());
  }
  EXPECT_EQ(fake.info_calls(), 1);
  EXPECT_EQ(fake.table_calls(), 1);
}

TEST(EmbeddingClientTest, SimilarityPairwiseInPartsJoinsInOrder) {
  FakeService fake({.max_pairs = 3});
  const auto result = ClientOf(fake.address())
                          ->Similarity({.table = {},
                                        .left = CountingIds(7),
                                        .right = Vectors{{10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15, 0, 16, 0}, 2},
                                        .layout = Layout::kPairwise,
                                        .metric = Metric::kTableDefault});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->shape, ElementsAre(7));
  EXPECT_THAT(result->scores, ElementsAre(10, 1011, 2012, 3013, 4014, 5015, 6016));
  EXPECT_EQ(result->metric, Metric::kEuclidean);
  EXPECT_FALSE(result->higher_is_closer);
  EXPECT_THAT(fake.sizes(), ElementsAre(3, 3, 1));
}

TEST(EmbeddingClientTest, SimilarityOfAllPairsInTilesJoinsInOrder) {
  FakeService fake({.max_pairs = 6});
  const auto result = ClientOf(fake.address())
                          ->Similarity({.table = {},
                                        .left = CountingIds(4),
                                        .right = CountingIds(8),
                                        .layout = Layout::kAllPairs,
                                        .metric = Metric::kTableDefault});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->shape, ElementsAre(4, 8));
  ASSERT_EQ(result->scores.size(), 32u);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 8; ++j) EXPECT_EQ(result->scores[i * 8 + j], 1000 * i + j);
  }
  EXPECT_GT(fake.calls(), 1);
}

TEST(EmbeddingClientTest, NeighboursInPartsKeepTheOrderOfQueries) {
  FakeService fake({.max_queries = 2});
  const auto result = ClientOf(fake.address())
                          ->NearestNeighbour({.table = {},
                                              .targets = Ids{{50, 40, 30, 20, 10}, {}},
                                              .k = 3,
                                              .metric = Metric::kDot,
                                              .include_inputs = false,
                                              .return_keys = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(fake.sizes(), ElementsAre(2, 2, 1));
  ASSERT_EQ(result->results.size(), 5u);
  EXPECT_THAT(result->results[0].ids, ElementsAre(51, 52, 53));
  EXPECT_THAT(result->results[4].ids, ElementsAre(11, 12, 13));
  EXPECT_THAT(result->results[4].keys, ElementsAre("k11", "k12", "k13"));
  EXPECT_THAT(result->results[4].scores, ElementsAre(1, 2, 3));
  EXPECT_EQ(result->metric, Metric::kDot);
  EXPECT_TRUE(result->higher_is_closer);
}

TEST(EmbeddingClientTest, KeysLongerThanPlannedMakeThePartsSmaller) {
  FakeService fake({.max_response_bytes = 4096, .min_key_bytes = 500});
  const auto result = ClientOf(fake.address())
                          ->NearestNeighbour({.table = {},
                                              .targets = CountingIds(20),
                                              .k = 1,
                                              .metric = Metric::kDot,
                                              .include_inputs = false,
                                              .return_keys = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->results.size(), 20u);
  EXPECT_EQ(result->results[19].keys[0].size(), 500u);
  EXPECT_THAT(fake.sizes(), ElementsAre(20, 6, 6, 6, 2));  // refused, then 64 + 9 + 512 bytes planned for each
}

TEST(EmbeddingClientTest, ResolveKeysInPartsAndByPrefix) {
  FakeService fake({.max_ids = 2});
  const auto client = ClientOf(fake.address());
  const auto ids = client->ResolveKeys({.table = {}, .query = Keys{{"k9", "k8", "k7"}, {}}});
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(ids->ids, ElementsAre(9, 8, 7));
  const auto keys = client->ResolveKeys({.table = {}, .query = KeyPrefix{"k", 2}});
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_THAT(keys->keys, ElementsAre("k0", "k1"));
}

TEST(EmbeddingClientTest, ATableThatChangesBetweenPartsIsReadAgainFromTheStart) {
  FakeService fake({.max_ids = 2}, [](int call, grpc::ServerContext&, FakeService::Settings& settings) {
    if (call == 1) settings.version = 2, settings.fingerprint = "bb";
    return grpc::Status::OK;
  });
  const auto rows = ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(6)});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->table, (TableStamp{"made-up", 2, "bb"}));
  EXPECT_EQ(rows->embeddings.data.size(), 6u * 12);
  EXPECT_THAT(fake.sizes(), ElementsAre(2, 2, 2, 2, 2));  // the first, the refused one, then all three
}

TEST(EmbeddingClientTest, ATableOfOtherWidthInBetweenDoesNotMix) {
  FakeService fake({.max_ids = 2}, [](int call, grpc::ServerContext&, FakeService::Settings& settings) {
    if (call == 2) settings.dim = 5, settings.fingerprint = "bb";
    return grpc::Status::OK;
  });
  const auto rows = ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(6)});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->embeddings.shape, ElementsAre(6, 5));
  EXPECT_EQ(rows->embeddings.data.size(), 6u * 20);
}

TEST(EmbeddingClientTest, ATableThatNeverRestsIsAborted) {
  FakeService fake({.max_ids = 2}, [](int, grpc::ServerContext&, FakeService::Settings& settings) {
    ++settings.version;
    return grpc::Status::OK;
  });
  const auto rows = ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(6)});
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Message(rows.status()), HasSubstr("the table changed during each of 4 runs over the 3 parts"));
}

TEST(EmbeddingClientTest, ErrorsOfTheServerComeWithTheirDetails) {
  FakeService fake({.rows = 10});
  const absl::Status status = ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(11)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Message(status), "ids[10] is 10, table has 10 rows");
  EXPECT_EQ(DetailsOf(status).reason, "ID_OUT_OF_RANGE");
}

TEST(EmbeddingClientTest, ErrorsInAPartSayWhereItStarts) {
  FakeService fake({.rows = 10, .max_ids = 8});
  const absl::Status status = ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(12)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Message(status), "in ids[8..11], positions counted from there: ids[2] is 10, table has 10 rows");
  EXPECT_EQ(DetailsOf(status).reason, "ID_OUT_OF_RANGE");
  EXPECT_THAT(DetailsOf(status).metadata, testing::Contains(testing::Pair("part", "ids[8..11]")));
}

TEST(EmbeddingClientTest, UnknownTableIsNotFound) {
  FakeService fake({});
  const auto client = ClientOf(fake.address());
  EXPECT_EQ(client->GetTable({"other", 0}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client->Lookup({.table = {"other", 0}, .rows = CountingIds(2)}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(EmbeddingClientTest, LimitsThatShrankAreReadAgain) {
  FakeService fake({.max_ids = 8}, [](int call, grpc::ServerContext&, FakeService::Settings& settings) {
    if (call == 1) settings.max_ids = 4;
    return grpc::Status::OK;
  });
  const auto client = ClientOf(fake.address());
  ASSERT_TRUE(client->Lookup({.table = {}, .rows = CountingIds(8)}).ok());
  ASSERT_TRUE(client->Lookup({.table = {}, .rows = CountingIds(8)}).ok());
  EXPECT_THAT(fake.sizes(), ElementsAre(8, 8, 4, 4));
  EXPECT_EQ(fake.info_calls(), 2);
}

TEST(EmbeddingClientTest, UnavailableIsTriedAgain) {
  FakeService fake({}, [](int call, grpc::ServerContext&, FakeService::Settings&) {
    return call < 2 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "loading") : grpc::Status::OK;
  });
  const auto rows = ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(1)});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(fake.calls(), 3);
}

TEST(EmbeddingClientTest, UnavailableForGoodEndsAfterTheAttemptsOfTheOptions) {
  FakeService fake({}, [](int, grpc::ServerContext&, FakeService::Settings&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "loading");
  });
  const auto client = ClientOf(fake.address(), {.max_attempts = 2});
  const absl::Status status = client->Lookup({.table = {}, .rows = CountingIds(1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(fake.calls(), 2);
}

TEST(EmbeddingClientTest, OverloadIsTriedAgainWhenTheServerPushesBack) {
  FakeService fake({}, [](int call, grpc::ServerContext& context, FakeService::Settings&) {
    if (call > 0) return grpc::Status::OK;
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "1");
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "overloaded");
  });
  EXPECT_TRUE(ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(1)}).ok());
  EXPECT_EQ(fake.calls(), 2);
}

TEST(EmbeddingClientTest, OverloadWithoutPushbackIsFinal) {
  FakeService fake({}, [](int, grpc::ServerContext&, FakeService::Settings&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "overloaded");
  });
  EXPECT_EQ(ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(1)}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fake.calls(), 1);
}

TEST(EmbeddingClientTest, TheDeadlineOfTheCallEndsIt) {
  std::latch over(1);
  FakeService fake({}, [&](int, grpc::ServerContext&, FakeService::Settings&) {
    over.wait();  // answers only when the client has given up
    return grpc::Status::OK;
  });
  const auto client = ClientOf(fake.address(), {.deadline = milliseconds(60'000)});
  const absl::Status status =
      client->Lookup({.table = {}, .rows = CountingIds(1)}, {.deadline = milliseconds(50)}).status();
  over.count_down();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(status), "no full answer from " + fake.address() + " within 50 ms");
}

TEST(EmbeddingClientTest, NobodyListeningIsUnavailableAndNamesTheAddress) {
  const std::string address = "unix:" + testing::TempDir() + "no-such-socket";
  const absl::Status status = ClientOf(address)->GetServerInfo().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), StartsWith("cannot reach " + address + ": "));
}

TEST(EmbeddingClientTest, OptionsOutOfRangeAreRefused) {
  const struct {
    ClientOptions options;
    const char* message;
  } cases[] = {
      {{.address = ""}, "address is empty, expected HOST:PORT or unix:PATH"},
      {{.deadline = milliseconds(0)}, "deadline is 0 ms, must be > 0"},
      {{.max_receive_bytes = 0}, "max_receive_bytes is 0, must be in 1..2147483647"},
      {{.max_receive_bytes = int64_t{1} << 31}, "max_receive_bytes is 2147483648, must be in 1..2147483647"},
      {{.max_attempts = 0}, "max_attempts is 0, must be in 1..10"},
      {{.max_attempts = 11}, "max_attempts is 11, must be in 1..10"},
  };
  for (const auto& c : cases) {
    const absl::Status status = EmbeddingClient::Create(c.options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Message(status), c.message);
  }
}

TEST(EmbeddingClientTest, RequestsWhoseSizesContradictEachOtherAreRefusedUnsent) {
  FakeService fake({});
  const auto client = ClientOf(fake.address());
  EXPECT_EQ(Message(client->Lookup({.table = {}, .rows = CountingIds(5, {2, 3})}).status()),
            "rows have the shape [2, 3], but there are 5 of them");
  EXPECT_EQ(Message(client->Similarity({.table = {}, .left = CountingIds(2), .right = CountingIds(3)}).status()),
            "left holds 2 vectors and right 3; the pairwise layout needs as many on both sides");
  EXPECT_EQ(Message(client->NearestNeighbour({.table = {}, .targets = Vectors{{1, 2, 3}, 2}}).status()),
            "targets holds 3 values, which is no whole number of vectors of dim 2");
  EXPECT_EQ(
      Message(
          client
              ->Similarity(
                  {.table = {}, .left = CountingIds(32769), .right = CountingIds(32768), .layout = Layout::kAllPairs})
              .status()),
      "left x right are 32769 x 32768 scores, more than the 1073741824 of one result");
  EXPECT_EQ(fake.calls(), 0);
}

TEST(EmbeddingClientTest, ADeadlineInThePartsIsNoMatterOfTheirContent) {
  std::latch over(1);
  FakeService fake({.max_ids = 2}, [&](int call, grpc::ServerContext&, FakeService::Settings&) {
    if (call == 1) over.wait();
    return grpc::Status::OK;
  });
  const absl::Status status =
      ClientOf(fake.address())->Lookup({.table = {}, .rows = CountingIds(6)}, {.deadline = milliseconds(200)}).status();
  over.count_down();
  EXPECT_EQ(Message(status), "no full answer from " + fake.address() + " within 200 ms");
}

TEST(EmbeddingClientTest, TableInfoAndServerInfoArriveWhole) {
  FakeService fake({.rows = 20, .dim = 4});
  const auto client = ClientOf(fake.address());
  const auto tables = client->ListTables();
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 1u);
  const TableInfo& table = tables->front();
  EXPECT_EQ(table.name, "made-up");
  EXPECT_EQ(table.parameters, 80);
  EXPECT_EQ(table.dtype, Dtype::kF32);
  EXPECT_EQ(table.source_dtype, Dtype::kF64);
  EXPECT_EQ(table.metric, Metric::kCosine);
  EXPECT_TRUE(table.has_keys);
  EXPECT_EQ(std::chrono::system_clock::to_time_t(table.loaded_at), 1'700'000'000);
  const auto info = client->GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->limits.max_queries, 100);
  EXPECT_EQ(info->limits.max_deadline, milliseconds(30'000));
}

TEST(EmbeddingClientTest, ThreadsShareOneClient) {
  FakeService fake({.max_ids = 16});
  const auto client = ClientOf(fake.address());
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::vector<int> good(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto rows = client->Lookup({.table = {}, .rows = CountingIds(40)});
        good[t] += rows.ok() && rows->embeddings.ToFloats().at(117) == 3900;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, testing::Each(20));
}

}  // namespace
}  // namespace embedding::client
