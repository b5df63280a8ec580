// What a body holds is counted, and refused, before it is parsed.
#include "server/service/field_counts.h"

#include <functional>
#include <string>

#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;

// Of a NearestNeighbourRequest.
FieldCounts Count(const std::string& body) { return FieldCounts(body, *v1::NearestNeighbourRequest::descriptor()); }

// A sub-message or a string of up to 127 bytes.
std::string Sub(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

TEST(FieldCountsTest, ListsAreCountedPackedAndUnpackedOverAllOccurrences) {
  const std::string ids = Sub(1, std::string("\x05\x80\x01\x00", 4)) + "\x08\x07";  // 5, 128, 0 packed; 7 by itself
  const FieldCounts counts = Count(Sub(2, Sub(1, Sub(1, ids))) + Sub(2, Sub(1, Sub(1, ids) + Sub(1, ""))));
  EXPECT_EQ(counts.Of("targets.rows.ids.values"), 8);
  EXPECT_EQ(counts.Of("targets.rows.ids"), 3);
  EXPECT_EQ(counts.Of("targets.rows"), 2);
  EXPECT_EQ(counts.Of("targets.rows.keys.values"), 0);
  EXPECT_EQ(counts.parts(), 7);
}

TEST(FieldCountsTest, EveryKindOfListIsCounted) {
  v1::NearestNeighbourRequest request;
  v1::ExampleQuery& query = *request.mutable_examples()->add_queries();
  for (int i = 0; i < 3; ++i) query.add_positive_weights(1);
  v1::RowSelector& rows = *query.add_negative()->mutable_rows();
  for (int i = 0; i < 4; ++i) rows.mutable_keys()->add_values(i == 0 ? "" : "king");
  rows.mutable_keys()->add_shape(4);
  for (int i = 0; i < 5; ++i) request.mutable_filter()->mutable_allow()->add_values(i * 1'000'000'007L - 9);
  for (int i = 0; i < 6; ++i) request.mutable_filter()->mutable_deny()->add_values(i);
  request.set_k(9);
  const FieldCounts counts = Count(request.SerializeAsString());
  EXPECT_EQ(counts.Of("examples.queries.positive_weights"), 3);
  EXPECT_EQ(counts.Of("examples.queries.negative.rows.keys.values"), 4);
  EXPECT_EQ(counts.Of("examples.queries.negative.rows.keys.shape"), 1);
  EXPECT_EQ(counts.Of("filter.allow.values"), 5);
  EXPECT_EQ(counts.Of("filter.deny.values"), 6);
  EXPECT_EQ(counts.Of("k"), 1);
  EXPECT_EQ(counts.parts(), 8);  // examples, query, negative, rows, keys, filter, allow, deny
}

TEST(FieldCountsTest, UnknownFieldsAndThoseOfAnotherTypeAreParts) {
  const std::string varint("\xf8\x07\x01", 3), bytes = "\xfa\x07\x02hi", fixed("\xfd\x07\x01\x02\x03\x04", 6);
  EXPECT_EQ(Count(varint + bytes + fixed).parts(), 3);
  EXPECT_EQ(Count("\x10\x01").parts(), 1);  // targets as a number
  // A group counts as what it could hold.
  EXPECT_EQ(Count("\xfb\x07" + std::string("\x08\x01\x08\x01") + "\xfc\x07").parts(), 1 + 3);
}

TEST(FieldCountsTest, WhatStandsBeforeAMalformedFieldIsCounted) {
  EXPECT_EQ(Count(Sub(2, Sub(1, Sub(1, Sub(1, "abc")))) + "\x07").Of("targets.rows.ids.values"), 3);
  EXPECT_EQ(Count(Sub(2, Sub(1, Sub(1, Sub(1, "abc") + "\x0a\x7f")))).Of("targets.rows.ids.values"), 3);
  EXPECT_EQ(Count("").parts(), 0);
}

struct LimitCase {
  const char* name;
  const char* method;
  // A request of n elements in the list.
  std::function<std::string(int n)> request;
  const char* field;
  const char* message;  // of 6 elements where 5 are allowed
};

template <typename Request>
std::function<std::string(int)> Requests(void (*fill)(Request& request, int n)) {
  return [fill](int n) {
    Request request;
    fill(request, n);
    return request.SerializeAsString();
  };
}

void AddIds(v1::IdList& list, int n) {
  for (int i = 0; i < n; ++i) list.add_values(i % 3);
}

void AddKeys(v1::KeyList& list, int n) {
  for (int i = 0; i < n; ++i) list.add_values("box");
}

using Neighbours = v1::NearestNeighbourRequest;

class CountBeforeParseTest : public ::testing::TestWithParam<LimitCase> {
 protected:
  static RequestLimits Five() {
    RequestLimits limits;
    limits.max_ids = 5;
    limits.max_filter_ids = 5;
    return limits;
  }

  absl::Status Call(const std::string& body) {
    v1::NearestNeighbourResponse neighbours;
    v1::SimilarityResponse similarity;
    v1::ResolveKeysResponse resolved;
    const std::string method = GetParam().method;
    if (method == "Similarity") return services_.CallBytes(method, body, &similarity);
    if (method == "ResolveKeys") return services_.CallBytes(method, body, &resolved);
    return services_.CallBytes(method, body, &neighbours);
  }

  Services services_{TablesOf(ToyTable()), Five()};
};

TEST_P(CountBeforeParseTest, TheLimitItselfIsAllowed) { EXPECT_EQ(Call(GetParam().request(5)), absl::OkStatus()); }

// A body that ends in nonsense shows that the parser has not seen it.
TEST_P(CountBeforeParseTest, OneMoreIsRefusedBeforeTheParserSeesIt) {
  for (const char* end : {"", "\x07"}) {
    const absl::Status refused = Call(GetParam().request(6) + end);
    EXPECT_THAT(refused, IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED", GetParam().message));
    EXPECT_EQ(FieldOf(refused), GetParam().field);
  }
  EXPECT_EQ(DetailsOf(Call(GetParam().request(5) + "\x07")).reason, "MALFORMED");
}

INSTANTIATE_TEST_SUITE_P(
    All, CountBeforeParseTest,
    ::testing::Values(
        LimitCase{"TargetIds", "NearestNeighbour", Requests<Neighbours>([](Neighbours& request, int n) {
                    request.set_k(1);
                    AddIds(*request.mutable_targets()->mutable_rows()->mutable_ids(), n);
                  }),
                  "targets.rows.ids",
                  "targets.ids has 6 entries, limit 5 (--max-ids); the largest batch that fits is 5"},
        LimitCase{"TargetKeys", "NearestNeighbour", Requests<Neighbours>([](Neighbours& request, int n) {
                    request.set_k(1);
                    AddKeys(*request.mutable_targets()->mutable_rows()->mutable_keys(), n);
                  }),
                  "targets.rows.keys",
                  "targets.keys has 6 entries, limit 5 (--max-ids); the largest batch that fits is 5"},
        LimitCase{"ExampleKeys", "NearestNeighbour", Requests<Neighbours>([](Neighbours& request, int n) {
                    request.set_k(1);
                    v1::ExampleQuery& query = *request.mutable_examples()->add_queries();
                    AddKeys(*query.add_positive()->mutable_rows()->mutable_keys(), n - 1);
                    AddIds(*query.add_negative()->mutable_rows()->mutable_ids(), 1);
                  }),
                  "examples", "examples has 6 vectors in all, limit 5 (--max-ids); the largest batch that fits is 5"},
        LimitCase{"FilterLists", "NearestNeighbour", Requests<Neighbours>([](Neighbours& request, int n) {
                    request.set_k(1);
                    AddIds(*request.mutable_targets()->mutable_rows()->mutable_ids(), 1);
                    AddIds(*request.mutable_filter()->mutable_allow(), 2);
                    AddIds(*request.mutable_filter()->mutable_deny(), n - 2);
                  }),
                  "filter",
                  "filter has 6 ids, limit 5 (--max-filter-ids); the largest lists that fit hold 5 ids together"},
        LimitCase{"LeftIds", "Similarity", Requests<v1::SimilarityRequest>([](v1::SimilarityRequest& request, int n) {
                    request.set_layout(v1::LAYOUT_ALL_PAIRS);
                    AddIds(*request.mutable_left()->mutable_rows()->mutable_ids(), n);
                    AddIds(*request.mutable_right()->mutable_rows()->mutable_ids(), 1);
                  }),
                  "left.rows.ids", "left.ids has 6 entries, limit 5 (--max-ids); the largest batch that fits is 5"},
        LimitCase{"RightKeys", "Similarity", Requests<v1::SimilarityRequest>([](v1::SimilarityRequest& request, int n) {
                    request.set_layout(v1::LAYOUT_ALL_PAIRS);
                    AddIds(*request.mutable_left()->mutable_rows()->mutable_ids(), 1);
                    AddKeys(*request.mutable_right()->mutable_rows()->mutable_keys(), n);
                  }),
                  "right.rows.keys", "right.keys has 6 entries, limit 5 (--max-ids); the largest batch that fits is 5"},
        LimitCase{"ResolvedKeys", "ResolveKeys",
                  Requests<v1::ResolveKeysRequest>([](v1::ResolveKeysRequest& request, int n) {
                    AddKeys(*request.mutable_keys(), n);
                  }),
                  "keys", "keys has 6 entries, limit 5 (--max-ids); the largest batch that fits is 5"},
        LimitCase{"ResolvedIds", "ResolveKeys",
                  Requests<v1::ResolveKeysRequest>([](v1::ResolveKeysRequest& request, int n) {
                    AddIds(*request.mutable_ids(), n);
                  }),
                  "ids", "ids has 6 entries, limit 5 (--max-ids); the largest batch that fits is 5"}),
    [](const auto& test) { return std::string(test.param.name); });

struct ShapeCase {
  const char* name;
  void (*fill)(Neighbours& request);
  const char* message;
};

class ShapeBeforeParseTest : public ::testing::TestWithParam<ShapeCase> {};

TEST_P(ShapeBeforeParseTest, IsRefusedBeforeTheParserSeesIt) {
  Services services(TablesOf(ToyTable()));
  Neighbours request;
  request.set_k(1);
  GetParam().fill(request);
  v1::NearestNeighbourResponse response;
  EXPECT_THAT(services.CallBytes("NearestNeighbour", request.SerializeAsString() + "\x07", &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, ShapeBeforeParseTest,
    ::testing::Values(
        ShapeCase{"OfIds",
                  [](Neighbours& request) {
                    request.mutable_targets()->mutable_rows()->mutable_ids()->mutable_shape()->Resize(1000, 1);
                  },
                  "targets.ids.shape has 1000 dimensions, must have 1: only Lookup takes more"},
        ShapeCase{"OfAnIdTensor",
                  [](Neighbours& request) {
                    request.mutable_targets()->mutable_rows()->mutable_id_tensor()->mutable_shape()->Resize(9, 1);
                  },
                  "targets.id_tensor.shape has 9 dimensions, must have 1: only Lookup takes more"},
        ShapeCase{
            "OfVectors",
            [](Neighbours& request) { request.mutable_targets()->mutable_vectors()->mutable_shape()->Resize(9, 1); },
            "targets.vectors.shape has 9 dimensions, must be [n, d] or [d]"},
        ShapeCase{"OfAFilter",
                  [](Neighbours& request) { request.mutable_filter()->mutable_deny()->mutable_shape()->Resize(2, 1); },
                  "filter.deny.shape has 2 dimensions, must have 1: only Lookup takes more"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PartsTest, AsManyAsTheLimitPassAndOneMoreIsRefusedByEveryMethodThatParses) {
  RequestLimits limits;
  limits.max_ids = 16;
  Services services(TablesOf(ToyTable()), limits);
  std::string most;
  for (int i = 0; i < 65536 + 4 * 16; ++i) most += "\x78\x01";  // field 15, which no request has
  v1::GetTableResponse table;
  EXPECT_EQ(services.CallBytes("GetTable", most, &table), absl::OkStatus());
  for (const char* method :
       {"GetTable", "GetServerInfo", "ListTables", "ResolveKeys", "Similarity", "NearestNeighbour"}) {
    EXPECT_THAT(services.CallBytes(method, most + "\x78\x01", &table),
                IsError(StatusCode::kInvalidArgument, "MALFORMED",
                        std::string("not a valid embedding.v1.") + method +
                            "Request: 65601 sub-messages and unknown fields, at most 65600 (65536 and 4 for each of "
                            "--max-ids)"));
  }
}

}  // namespace
}  // namespace embedding::testing
