#include "server/service/table_service.h"

#include <cmath>

#include "google/protobuf/util/time_util.h"
#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GetServerInfoTest, AnswersWhileTablesLoadAndWhileDraining) {
  RequestLimits limits;
  limits.max_ids = 11;
  limits.max_queries = 12;
  limits.max_k = 13;
  limits.max_pairs = 14;
  limits.max_filter_ids = 18;
  limits.max_request_bytes = 15;
  limits.max_response_bytes = 1600;
  limits.max_deadline = std::chrono::milliseconds(1700);
  Services services(std::vector<std::string>{"toy"}, limits);
  v1::GetServerInfoResponse response;
  ASSERT_EQ(services.Call("GetServerInfo", v1::GetServerInfoRequest(), &response), absl::OkStatus());
  EXPECT_EQ(response.version(), "0.0.0");
  EXPECT_EQ(response.revision(), "revision");
  EXPECT_EQ(response.simd_target(), "simd");
  EXPECT_GE(response.uptime().nanos(), 0);
  EXPECT_EQ(response.limits().max_ids(), 11);
  EXPECT_EQ(response.limits().max_queries(), 12);
  EXPECT_EQ(response.limits().max_k(), 13);
  EXPECT_EQ(response.limits().max_pairs(), 14);
  EXPECT_EQ(response.limits().max_filter_ids(), 18);
  EXPECT_EQ(response.limits().max_request_bytes(), 15);
  EXPECT_EQ(response.limits().max_response_bytes(), 1600);
  EXPECT_EQ(response.limits().max_deadline().seconds(), 1);
  EXPECT_EQ(response.limits().max_deadline().nanos(), 700000000);
  services.registry.BeginShutdown();
  EXPECT_EQ(services.Call("GetServerInfo", v1::GetServerInfoRequest(), &response), absl::OkStatus());
}

TEST(GetServerInfoTest, MalformedBodiesAreRefused) {
  Services services(std::vector<std::string>{"toy"});
  v1::GetServerInfoResponse response;
  EXPECT_THAT(
      services.CallBytes("GetServerInfo", "\x07", &response),
      IsError(StatusCode::kInvalidArgument, "MALFORMED",
              "not a valid embedding.v1.GetServerInfoRequest: broken protobuf encoding, or a string that is not "
              "UTF-8"));
}

TEST(GetTableTest, TellsWhatTheTableIs) {
  const std::vector<float> values = {0, 0, 3, 4, NAN, 1};
  Services services(TablesOf(FloatTable("plane", 2, values, {"zero", "point", "odd"})));
  v1::GetTableResponse response;
  ASSERT_EQ(services.Call("GetTable", v1::GetTableRequest(), &response), absl::OkStatus());
  const v1::TableInfo& info = response.table();
  EXPECT_EQ(info.name(), "plane");
  EXPECT_EQ(info.serving_version(), 1u);
  EXPECT_EQ(info.rows(), 3);
  EXPECT_EQ(info.dim(), 2);
  EXPECT_EQ(info.parameters(), 6);
  EXPECT_EQ(info.dtype(), v1::DTYPE_F32);
  EXPECT_EQ(info.source_dtype(), v1::DTYPE_F32);
  EXPECT_EQ(info.bytes(), 24);
  EXPECT_EQ(info.metric(), v1::METRIC_COSINE);
  EXPECT_TRUE(info.has_keys());
  EXPECT_EQ(info.fingerprint().size(), 32u);
  EXPECT_EQ(info.loaded_at().seconds(), 1700000000);
  EXPECT_EQ(info.zero_rows(), 1);
  EXPECT_EQ(info.non_finite_rows(), 1);
}

TEST(GetTableTest, TellsWhatTheFileSaysOfItself) {
  EmbeddingTable::Parts parts;
  parts.name = "t";
  parts.num_rows = parts.dim = 1;
  parts.rows = std::shared_ptr<const std::byte>(new std::byte[4](), std::default_delete<std::byte[]>());
  parts.metadata = {{"format", "pt"}, {"license", "PDDL"}};
  Services services(TablesOf(std::make_unique<EmbeddingTable>(std::move(parts))));
  v1::GetTableResponse response;
  ASSERT_EQ(services.Call("GetTable", v1::GetTableRequest(), &response), absl::OkStatus());
  ASSERT_EQ(response.table().metadata_size(), 2);
  EXPECT_EQ(response.table().metadata().at("license"), "PDDL");
}

TEST(GetTableTest, TellsTheVersionsInMemory) {
  Services services(TablesOf(ToyTable()));
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = "toy";
  snapshot->version = 2;
  snapshot->table = CountingTable("toy", 5, 3);
  services.registry.Publish(std::move(snapshot));
  services.registry.SetFailed("toy", VersionInfo{3, VersionState::kFailed, "toy.npy: it is empty"});
  v1::GetTableRequest request;
  v1::GetTableResponse response;
  for (const uint64_t pinned : {0, 1}) {
    request.mutable_table()->set_version(pinned);
    ASSERT_EQ(services.Call("GetTable", request, &response), absl::OkStatus());
    EXPECT_EQ(response.table().rows(), pinned == 1 ? 4 : 5);
    EXPECT_EQ(response.table().serving_version(), 2u);
    ASSERT_EQ(response.table().versions_size(), 3);
    EXPECT_EQ(response.table().versions(0).version(), 1u);
    EXPECT_EQ(response.table().versions(0).state(), v1::TABLE_STATE_AVAILABLE);
    EXPECT_EQ(response.table().versions(2).state(), v1::TABLE_STATE_FAILED);
    EXPECT_EQ(response.table().versions(2).reason(), "toy.npy: it is empty");
  }
}

TEST(GetTableTest, TellsAsFingerprintAndVersionWhatAnswersCarry) {
  Services services(TablesOf(ToyTable()));
  v1::GetTableResponse table;
  v1::LookupResponse lookup;
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids();
  ASSERT_EQ(services.Call("GetTable", v1::GetTableRequest(), &table), absl::OkStatus());
  ASSERT_EQ(services.Lookup(request, &lookup), absl::OkStatus());
  EXPECT_EQ(table.table().fingerprint(), lookup.table().fingerprint());
  EXPECT_EQ(table.table().serving_version(), lookup.table().version());
}

// Rows of one number, but with the size of a real model's table.
TEST(GetTableTest, Gpt2HasAsManyParametersAsItsPaperSays) {
  EmbeddingTable::Parts parts;
  parts.name = "gpt2";
  parts.num_rows = 50257;
  parts.dim = 768;
  // No row is read here, so none needs to exist.
  static const std::byte nothing{};
  parts.rows = std::shared_ptr<const std::byte>(&nothing, [](const std::byte*) {});
  Services services(std::vector<std::string>{"gpt2"});
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = "gpt2";
  snapshot->table = std::make_unique<EmbeddingTable>(std::move(parts));
  services.registry.Publish(std::move(snapshot));
  v1::GetTableResponse response;
  ASSERT_EQ(services.Call("GetTable", v1::GetTableRequest(), &response), absl::OkStatus());
  EXPECT_EQ(response.table().parameters(), 38597376);
  EXPECT_EQ(response.table().bytes(), 154389504);
}

TEST(ListTablesTest, ListsTablesByName) {
  Services services(TablesOf(ToyTable(), CountingTable("abc", 3, 1)));
  v1::ListTablesResponse response;
  ASSERT_EQ(services.Call("ListTables", v1::ListTablesRequest(), &response), absl::OkStatus());
  ASSERT_EQ(response.tables_size(), 2);
  EXPECT_EQ(response.tables(0).name(), "abc");
  EXPECT_EQ(response.tables(1).name(), "toy");
  EXPECT_FALSE(response.tables(0).has_keys());
}

TEST(ListTablesTest, IsUnavailableUntilAllAreLoaded) {
  Services services(std::vector<std::string>{"a", "b"});
  v1::ListTablesResponse response;
  EXPECT_THAT(services.Call("ListTables", v1::ListTablesRequest(), &response),
              IsError(StatusCode::kUnavailable, "LOADING", "no table loaded yet"));
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = "b";
  snapshot->table = CountingTable("b", 1, 1);
  services.registry.Publish(std::move(snapshot));
  EXPECT_THAT(services.Call("ListTables", v1::ListTablesRequest(), &response),
              IsError(StatusCode::kUnavailable, "LOADING", "1 of 2 tables are loaded"));
}

class ResolveKeysTest : public ::testing::Test {
 protected:
  absl::Status Resolve(const v1::ResolveKeysRequest& request) {
    return services_.Call("ResolveKeys", request, &response_);
  }

  Services services_{TablesOf(FloatTable("words", 1, {0, 1, 2, 3, 4}, {"cat", "car", "dog", "ca", "cart"}))};
  v1::ResolveKeysRequest request_;
  v1::ResolveKeysResponse response_;
};

TEST_F(ResolveKeysTest, GivesIdsOfKeysInRequestOrder) {
  for (const char* key : {"dog", "cat", "dog"}) request_.mutable_keys()->add_values(key);
  ASSERT_EQ(Resolve(request_), absl::OkStatus());
  EXPECT_THAT(response_.ids(), ElementsAre(2, 0, 2));
  EXPECT_THAT(response_.keys(), ElementsAre("dog", "cat", "dog"));
  EXPECT_EQ(response_.table().name(), "words");
  EXPECT_EQ(response_.table().version(), 1u);
  EXPECT_EQ(response_.table().fingerprint().size(), 32u);
}

TEST_F(ResolveKeysTest, GivesKeysOfIds) {
  for (const int64_t id : {4, 0}) request_.mutable_ids()->add_values(id);
  ASSERT_EQ(Resolve(request_), absl::OkStatus());
  EXPECT_THAT(response_.ids(), ElementsAre(4, 0));
  EXPECT_THAT(response_.keys(), ElementsAre("cart", "cat"));
}

TEST_F(ResolveKeysTest, GivesKeysOfAPrefixInByteOrder) {
  request_.set_prefix("ca");
  ASSERT_EQ(Resolve(request_), absl::OkStatus());
  EXPECT_THAT(response_.keys(), ElementsAre("ca", "car", "cart", "cat"));
  EXPECT_THAT(response_.ids(), ElementsAre(3, 1, 4, 0));
  request_.set_limit(2);
  ASSERT_EQ(Resolve(request_), absl::OkStatus());
  EXPECT_THAT(response_.keys(), ElementsAre("ca", "car"));
  request_.set_prefix("x");
  ASSERT_EQ(Resolve(request_), absl::OkStatus());
  EXPECT_THAT(response_.keys(), IsEmpty());
}

TEST_F(ResolveKeysTest, UnsetPrefixLimitIsTen) {
  std::vector<std::string> keys;
  for (char c = 'a'; c < 'a' + 12; ++c) keys.emplace_back(1, c);
  Services many(TablesOf(FloatTable("many", 1, std::vector<float>(12, 1), keys)));
  request_.set_prefix("");
  ASSERT_EQ(many.Call("ResolveKeys", request_, &response_), absl::OkStatus());
  EXPECT_EQ(response_.keys_size(), 10);
  EXPECT_EQ(response_.keys(9), "j");
}

TEST_F(ResolveKeysTest, RefusesWhatItCannotResolve) {
  EXPECT_THAT(Resolve(request_),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "query is unset, must hold keys, ids or prefix"));
  request_.mutable_keys()->add_values("cow");
  EXPECT_THAT(Resolve(request_), IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                                         "keys[0] \"cow\" is not a key of table \"words\"; 1 of 1 missing, at 0"));
  request_.mutable_ids()->add_values(5);
  const absl::Status status = Resolve(request_);
  EXPECT_THAT(status, IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "ids[0] is 5, table \"words\" has 5 rows"));
  EXPECT_EQ(FieldOf(status), "ids.values[0]");
  request_.set_prefix("c");
  for (const int32_t limit : {-1, 10001}) {
    request_.set_limit(limit);
    EXPECT_THAT(Resolve(request_), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                           "limit=" + std::to_string(limit) + ", must be in 1..10000, or 0 for 10"));
  }
}

TEST_F(ResolveKeysTest, NeedsATableWithKeys) {
  Services services(TablesOf(CountingTable("items", 5, 2)));
  request_.mutable_ids()->add_values(1);
  EXPECT_THAT(
      services.Call("ResolveKeys", request_, &response_),
      IsError(StatusCode::kFailedPrecondition, "NO_KEYS", "table \"items\" has no keys; load it with vocab=FILE"));
}

TEST_F(ResolveKeysTest, AnswersStayWithinTheLimit) {
  RequestLimits limits;
  limits.max_response_bytes = 5000;
  Services services(TablesOf(FloatTable("long", 1, {1, 2}, {std::string(1000, 'a'), "b"})), limits);
  for (int i = 0; i < 5; ++i) request_.mutable_ids()->add_values(0);
  EXPECT_THAT(services.Call("ResolveKeys", request_, &response_),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "the answer needs 5208 bytes, limit 5000 (--max-response-bytes); the largest batch that fits is "
                      "4"));
  request_.mutable_ids()->mutable_values()->RemoveLast();
  EXPECT_EQ(services.Call("ResolveKeys", request_, &response_), absl::OkStatus());
  EXPECT_LE(response_.ByteSizeLong(), 5000u);
}

}  // namespace
}  // namespace embedding::testing
