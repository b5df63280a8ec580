// Lookup as a caller sees it: shapes, dtypes, encodings, refusals with their whole messages.
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "server/kernels/kernels.h"
#include "tests/server/service/service_testing.h"
#include "tests/testing/byte_codes.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::LookupRequest IdsRequest(const std::vector<int64_t>& ids, const std::vector<int64_t>& shape = {}) {
  v1::LookupRequest request;
  v1::IdList* list = request.mutable_rows()->mutable_ids();
  for (const int64_t id : ids) list->add_values(id);
  for (const int64_t size : shape) list->add_shape(size);
  return request;
}

v1::LookupRequest KeysRequest(const std::vector<std::string>& keys) {
  v1::LookupRequest request;
  v1::KeyList* list = request.mutable_rows()->mutable_keys();
  for (const std::string& key : keys) list->add_values(key);
  return request;
}

TEST(LookupTest, GivesRowsInRequestOrderWithDuplicates) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(IdsRequest({3, 0, 3}), &response), absl::OkStatus());
  EXPECT_EQ(response.table().name(), "toy");
  EXPECT_EQ(response.table().version(), 1u);
  EXPECT_EQ(response.table().fingerprint().size(), 32u);
  EXPECT_EQ(response.embeddings().dtype(), v1::DTYPE_F32);
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(3, 3));
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(-1, 0, .5f, 1, 0, 1, -1, 0, .5f));
  EXPECT_EQ(response.embeddings().values_size(), 0);
}

TEST(LookupTest, FindsKeysByTheirExactBytes) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(KeysRequest({"arm", "robot"}), &response), absl::OkStatus());
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(.9f, .1f, .8f, 1, 0, 1));
}

TEST(LookupTest, ReadsIdTensorsOfBothWidths) {
  Services services(TablesOf(ToyTable()));
  v1::LookupRequest request;
  v1::Tensor* tensor = request.mutable_rows()->mutable_id_tensor();
  tensor->set_dtype(v1::DTYPE_I32);
  tensor->add_shape(2);
  tensor->set_data(RawBytes(std::vector<int32_t>{2, 1}));
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(0, 1, 0, .9f, .1f, .8f));
  tensor->set_dtype(v1::DTYPE_I64);
  tensor->set_data(RawBytes(std::vector<int64_t>{2, 1}));
  v1::LookupResponse wide;
  ASSERT_EQ(services.Lookup(request, &wide), absl::OkStatus());
  EXPECT_EQ(wide.SerializeAsString(), response.SerializeAsString());
  tensor->clear_shape();  // [n]
  ASSERT_EQ(services.Lookup(request, &wide), absl::OkStatus());
  EXPECT_EQ(wide.SerializeAsString(), response.SerializeAsString());
}

TEST(LookupTest, EightByOneHundredTwentyEightIdsGiveThatManyRowsOf256) {
  Services services(TablesOf(CountingTable("wide", 50, 256)));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < int64_t{8} * 128; ++i) ids.push_back(i * 7 % 50);
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(IdsRequest(ids, {8, 128}), &response), absl::OkStatus());
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(8, 128, 256));
  const std::vector<float> rows = FloatsOf(response.embeddings());
  ASSERT_EQ(rows.size(), 8u * 128 * 256);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i], static_cast<float>(ids[i / 256] * 1000 + static_cast<int64_t>(i % 256))) << i;
  }
}

TEST(LookupTest, AnswersWithTheBytesThatProtobufWouldWrite) {
  Services services(TablesOf(ToyTable()));
  for (const v1::LookupRequest& request : {IdsRequest({3, 0}), IdsRequest({}), IdsRequest({1, 2, 3, 0}, {2, 2, 1})}) {
    for (const v1::Encoding encoding : {v1::ENCODING_BYTES, v1::ENCODING_FLOATS}) {
      v1::LookupRequest encoded = request;
      encoded.set_encoding(encoding);
      const auto call = services.Start("Lookup", BodyOf(encoded.SerializeAsString()));
      ASSERT_EQ(call->status(), absl::OkStatus());
      const std::string bytes = BytesOf(call->TakeReply());
      v1::LookupResponse response;
      ASSERT_TRUE(response.ParseFromString(bytes));
      EXPECT_EQ(response.SerializeAsString(), bytes);
    }
  }
}

TEST(LookupTest, EmptyBatchKeepsTheWidth) {
  Services services(TablesOf(ToyTable()));
  v1::LookupRequest empty_tensor;
  empty_tensor.mutable_rows()->mutable_id_tensor()->set_dtype(v1::DTYPE_I64);
  empty_tensor.mutable_rows()->mutable_id_tensor()->add_shape(0);
  for (const v1::LookupRequest& request : {IdsRequest({}), KeysRequest({}), empty_tensor}) {
    v1::LookupResponse response;
    ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
    EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(0, 3));
    EXPECT_THAT(response.embeddings().data(), IsEmpty());
  }
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(IdsRequest({}, {4, 0, 2}), &response), absl::OkStatus());
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(4, 0, 2, 3));
}

TEST(LookupTest, OneIdFourThousandTimesGivesFourThousandEqualRows) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(IdsRequest(std::vector<int64_t>(4096, 1)), &response), absl::OkStatus());
  std::vector<float> want;
  for (int i = 0; i < 4096; ++i) want.insert(want.end(), {.9f, .1f, .8f});
  EXPECT_EQ(FloatsOf(response.embeddings()), want);
}

TEST(LookupTest, FloatsCarryTheSameValuesAsBytes) {
  Services services(TablesOf(ToyTable()));
  v1::LookupRequest request = IdsRequest({1, 3});
  request.set_encoding(v1::ENCODING_FLOATS);
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_THAT(response.embeddings().data(), IsEmpty());
  EXPECT_THAT(response.embeddings().values(), ElementsAre(.9f, .1f, .8f, -1, 0, .5f));
}

TEST(LookupTest, ReadsBodiesInManySlices) {
  Services services(TablesOf(ToyTable()));
  const auto call = services.Start("Lookup", BodyOf(KeysRequest({"arm", "box"}).SerializeAsString(), 3));
  ASSERT_EQ(call->status(), absl::OkStatus());
  v1::LookupResponse response;
  ASSERT_TRUE(response.ParseFromString(BytesOf(call->TakeReply())));
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(.9f, .1f, .8f, 0, 1, 0));
}

TEST(LookupTest, PlainRowsKeepTheBitsOfNaNs) {
  const std::vector<uint16_t> bits = {0x7E01, 0xFC00, 0x0001,
                                      0x3C00};  // quiet NaN with payload, -Infinity, subnormal, 1
  Services services(TablesOf(TableFromMemory("halves", Dtype::kF16, 2, 2, bits.data())));
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(IdsRequest({0, 1}), &response), absl::OkStatus());
  EXPECT_EQ(response.embeddings().dtype(), v1::DTYPE_F16);
  EXPECT_EQ(response.embeddings().data(), RawBytes(bits));
}

TEST(LookupTest, WidensAndRoundsOnRequest) {
  // 1/3 in binary16 is 0x3555 = 0.333251953125; as bfloat16 that is 0x3EAB (0.333984375, nearest to it).
  const std::vector<uint16_t> bits = {0x3555, 0xC000};
  Services services(TablesOf(TableFromMemory("halves", Dtype::kF16, 1, 2, bits.data())));
  v1::LookupRequest request = IdsRequest({0});
  request.set_output_dtype(v1::DTYPE_F32);
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(0.333251953125f, -2));
  request.set_output_dtype(v1::DTYPE_BF16);
  ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
  EXPECT_EQ(response.embeddings().dtype(), v1::DTYPE_BF16);
  EXPECT_EQ(response.embeddings().data(), RawBytes(std::vector<uint16_t>{0x3EAB, 0xC000}));
}

// All 256 codes of each 8-bit dtype, values by numpy and ml_dtypes.
TEST(LookupTest, ServesBytesAsStoredAndWidensThemExactly) {
  std::vector<uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  const struct {
    Dtype dtype;
    v1::Dtype wire;
  } kCases[] = {{Dtype::kI8, v1::DTYPE_I8},
                {Dtype::kU8, v1::DTYPE_U8},
                {Dtype::kF8E4M3, v1::DTYPE_F8_E4M3},
                {Dtype::kF8E5M2, v1::DTYPE_F8_E5M2}};
  for (size_t i = 0; i < std::size(kCases); ++i) {
    SCOPED_TRACE(testing::kByteCodes[i].dtype);
    Services services(TablesOf(TableFromMemory("bytes", kCases[i].dtype, 16, 16, codes.data())));
    v1::LookupRequest request;
    for (int64_t id = 0; id < 16; ++id) request.mutable_rows()->mutable_ids()->add_values(id);
    v1::LookupResponse response;
    for (const v1::Dtype stored : {v1::DTYPE_UNSPECIFIED, kCases[i].wire}) {
      request.set_output_dtype(stored);
      ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
      EXPECT_EQ(response.embeddings().dtype(), kCases[i].wire);
      EXPECT_EQ(response.embeddings().data(), RawBytes(codes));
    }
    std::vector<float> floats;
    request.set_output_dtype(v1::DTYPE_F32);
    ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
    floats = FloatsOf(response.embeddings());
    request.set_encoding(v1::ENCODING_FLOATS);
    ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
    EXPECT_EQ(response.embeddings().values_size(), 256);
    request.set_encoding(v1::ENCODING_BYTES);
    ASSERT_EQ(floats.size(), 256u);
    for (size_t code = 0; code < 256; ++code) {
      EXPECT_TRUE(testing::IsCode(floats[code], testing::kByteCodes[i], code)) << code;
      if (std::isnan(floats[code])) continue;
      EXPECT_EQ(response.embeddings().values(static_cast<int>(code)), floats[code]);
    }
    // Both hold every value of 8 bits exactly: BF16 has 8 significant bits, F16 the range of E5M2.
    for (const v1::Dtype half : {v1::DTYPE_F16, v1::DTYPE_BF16}) {
      request.set_output_dtype(half);
      ASSERT_EQ(services.Lookup(request, &response), absl::OkStatus());
      EXPECT_EQ(response.embeddings().dtype(), half);
      std::vector<float> back(256);
      WidenToF32(half == v1::DTYPE_F16 ? ElementType::kF16 : ElementType::kBF16, response.embeddings().data().data(),
                 256, back.data());
      for (size_t code = 0; code < 256; ++code) EXPECT_TRUE(testing::IsCode(back[code], testing::kByteCodes[i], code));
    }
  }
}

TEST(LookupTest, BytesThatTheTableDoesNotStoreAreRefused) {
  Services services(TablesOf(ToyTable()));
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids()->add_values(0);
  request.set_output_dtype(v1::DTYPE_I8);
  v1::LookupResponse response;
  const absl::Status status = services.Lookup(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "output_dtype");
  EXPECT_EQ(status.message(),
            "output_dtype=DTYPE_I8, allowed: DTYPE_UNSPECIFIED (0), DTYPE_F32 (1), DTYPE_F16 (2), DTYPE_BF16 (3)");
  request.set_encoding(v1::ENCODING_FLOATS);
  EXPECT_EQ(services.Lookup(request, &response).message(),
            "output_dtype=DTYPE_I8, allowed with ENCODING_FLOATS: DTYPE_UNSPECIFIED (0), DTYPE_F32 (1)");
}

TEST(LookupTest, ValueBeyondTheOutputDtypeNamesPositionRowColumnAndValue) {
  Services services(TablesOf(FloatTable("big", 3, {1, 2, 3, 4, 65504, 70000}, {"small", "large"})));
  v1::LookupRequest request = IdsRequest({0, 1});
  request.set_output_dtype(v1::DTYPE_F16);
  v1::LookupResponse response;
  absl::Status status = services.Lookup(request, &response);
  EXPECT_THAT(status, IsError(StatusCode::kOutOfRange, "VALUE_OUT_OF_RANGE",
                              "ids[1] is 1, its column 2 is 70000, DTYPE_F16 ends at +-65504"));
  EXPECT_EQ(FieldOf(status), "output_dtype");
  request = KeysRequest({"large"});
  request.set_output_dtype(v1::DTYPE_F16);
  EXPECT_THAT(services.Lookup(request, &response),
              IsError(StatusCode::kOutOfRange, "VALUE_OUT_OF_RANGE",
                      "keys[0] \"large\" is row 1, its column 2 is 70000, DTYPE_F16 ends at +-65504"));
  EXPECT_EQ(services.admission.in_flight_bytes(), 0);
}

TEST(LookupTest, IdBeyondTheTableIsNamedWhereverItStands) {
  Services services(TablesOf(CountingTable("items", 1000, 1)));
  for (const size_t place : {0, 7, 15}) {
    std::vector<int64_t> ids(16, 3);
    ids[place] = 1000;
    v1::LookupResponse response;
    const absl::Status status = services.Lookup(IdsRequest(ids), &response);
    const std::string at = std::to_string(place);
    EXPECT_THAT(status, IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE",
                                "ids[" + at + "] is 1000, table \"items\" has 1000 rows"));
    EXPECT_EQ(FieldOf(status), "rows.ids.values[" + at + "]");
  }
}

TEST(LookupTest, IdsAreComparedInTheirOwnWidth) {
  Services services(TablesOf(CountingTable("items", 1000, 1)));
  v1::LookupResponse response;
  EXPECT_THAT(
      services.Lookup(IdsRequest({4294967299}), &response),
      IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "ids[0] is 4294967299, table \"items\" has 1000 rows"));
  // 2^63 of a caller who counts in unsigned numbers arrives negative.
  EXPECT_THAT(services.Lookup(IdsRequest({std::numeric_limits<int64_t>::min()}), &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "ids[0]=-9223372036854775808, must be >= 0"));
}

TEST(LookupTest, FirstWrongElementDecides) {
  Services services(TablesOf(CountingTable("items", 10, 1)));
  v1::LookupResponse response;
  const absl::Status negative = services.Lookup(IdsRequest({1, -1, 10}), &response);
  EXPECT_THAT(negative, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "ids[1]=-1, must be >= 0"));
  EXPECT_EQ(FieldOf(negative), "rows.ids.values[1]");
  EXPECT_THAT(services.Lookup(IdsRequest({1, 10, -1}), &response),
              IsError(StatusCode::kOutOfRange, "ID_OUT_OF_RANGE", "ids[1] is 10, table \"items\" has 10 rows"));
}

TEST(LookupTest, CountsHitsAndMisses) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  EXPECT_TRUE(services.Lookup(IdsRequest({0, 1, 2}), &response).ok());
  EXPECT_FALSE(services.Lookup(IdsRequest({0, 4, 5}), &response).ok());
  EXPECT_FALSE(services.Lookup(KeysRequest({"arm", "leg"}), &response).ok());
  EXPECT_FALSE(services.Lookup(IdsRequest({-1}), &response).ok());
  EXPECT_EQ(MetricValue(services.metrics, "embedding_rows_total", {{"grpc_method", "Lookup"}, {"result", "hit"}}), 5);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_rows_total", {{"grpc_method", "Lookup"}, {"result", "miss"}}), 3);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_batch_rows", {{"grpc_method", "Lookup"}}), 3);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_stage_seconds", {{"grpc_method", "Lookup"}, {"stage", "decode"}}),
            4);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_stage_seconds", {{"grpc_method", "Lookup"}, {"stage", "encode"}}),
            1);
}

TEST(LookupTest, BatchAtTheLimitIsServedAndOneMoreRefused) {
  RequestLimits limits;
  limits.max_ids = 4096;
  Services services(TablesOf(ToyTable()), limits);
  v1::LookupResponse response;
  EXPECT_EQ(services.Lookup(IdsRequest(std::vector<int64_t>(4096, 1)), &response), absl::OkStatus());
  const absl::Status status = services.Lookup(IdsRequest(std::vector<int64_t>(4097, 1)), &response);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                              "ids has 4097 entries, limit 4096 (--max-ids); the largest batch that fits is 4096"));
  EXPECT_EQ(FieldOf(status), "rows.ids");
  EXPECT_THAT(services.Lookup(KeysRequest(std::vector<std::string>(4097, "arm")), &response),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "keys has 4097 entries, limit 4096 (--max-ids); the largest batch that fits is 4096"));
}

TEST(LookupTest, AnswerAtTheByteLimitIsServedAndOneRowMoreRefused) {
  Services unlimited(TablesOf(CountingTable("items", 10, 256)));
  const std::vector<int64_t> four = {1, 2, 3, 4};
  const auto call = unlimited.Start("Lookup", BodyOf(IdsRequest(four).SerializeAsString()));
  ASSERT_EQ(call->status(), absl::OkStatus());
  const auto exact = static_cast<int64_t>(call->TakeReply().Length());

  RequestLimits limits;
  limits.max_response_bytes = exact;
  Services services(TablesOf(CountingTable("items", 10, 256)), limits);
  v1::LookupResponse response;
  EXPECT_EQ(services.Lookup(IdsRequest(four), &response), absl::OkStatus());
  const std::string limit = std::to_string(exact);
  EXPECT_THAT(services.Lookup(IdsRequest({1, 2, 3, 4, 5}), &response),
              IsError(StatusCode::kInvalidArgument, "LIMIT_EXCEEDED",
                      "the answer needs " + std::to_string(exact + 1024) + " bytes, limit " + limit +
                          " (--max-response-bytes); the largest batch that fits is 4"));
}

TEST(LookupTest, EveryAnswerHoldsItsBytesUntilItIsGone) {
  AdmissionLimits admission;
  admission.max_in_flight_bytes = 3000;
  Services services(TablesOf(CountingTable("items", 10, 256)), {}, admission);
  v1::LookupResponse response;
  {
    const auto first = services.Start("Lookup", BodyOf(IdsRequest({1, 2}).SerializeAsString()));
    const grpc::ByteBuffer held = first->TakeReply();
    EXPECT_EQ(services.admission.in_flight_bytes(), static_cast<int64_t>(held.Length()));
    const absl::Status status = services.Lookup(IdsRequest({3, 4}), &response);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(DetailsOf(status).reason, "OVERLOADED");
    EXPECT_THAT(std::string(status.message()), HasSubstr("overloaded"));
    EXPECT_THAT(DetailsOf(status).metadata, ::testing::Contains(std::make_pair(std::string(kRetryPushbackKey), "100")));
  }
  EXPECT_EQ(services.admission.in_flight_bytes(), 0);
  EXPECT_EQ(services.Lookup(IdsRequest({3, 4}), &response), absl::OkStatus());
}

TEST(LookupTest, MissingKeysAreCountedAndTheFirstSixteenListed) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  EXPECT_THAT(services.Lookup(KeysRequest({"arm", "q\"x\n", "box", "leg"}), &response),
              IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                      "keys[1] \"q\\\"x\\n\" is not a key of table \"toy\"; 2 of 4 missing, at 1, 3"));
  const absl::Status many = services.Lookup(KeysRequest(std::vector<std::string>(20, "leg")), &response);
  EXPECT_THAT(many, IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                            "keys[0] \"leg\" is not a key of table \"toy\"; 20 of 20 missing, at "
                            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ..."));
  EXPECT_THAT(DetailsOf(many).metadata, ::testing::Contains(std::make_pair(std::string("total"), std::string("20"))));
}

TEST(LookupTest, KeysWithNulAndEmptyKeysAreNotFound) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  EXPECT_THAT(services.Lookup(KeysRequest({std::string("arm\0", 4)}), &response),
              IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                      "keys[0] \"arm\\x00\" is not a key of table \"toy\"; 1 of 1 missing, at 0"));
  EXPECT_THAT(services.Lookup(KeysRequest({""}), &response),
              IsError(StatusCode::kNotFound, "KEY_NOT_FOUND",
                      "keys[0] \"\" is not a key of table \"toy\"; 1 of 1 missing, at 0"));
}

TEST(LookupTest, KeysThatNoTableCanHoldAreRefused) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  const std::string name = "keys[1] \"" + std::string(61, 'x') + "...\"";
  EXPECT_THAT(services.Lookup(KeysRequest({"arm", std::string(65537, 'x')}), &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", name + " has 65537 bytes, at most 65536"));
  EXPECT_EQ(services.Lookup(KeysRequest({std::string(65536, 'x')}), &response).code(), StatusCode::kNotFound);
  EXPECT_THAT(services.CallBytes("Lookup", std::string("\x12\x05\x12\x03\x0a\x01\xff", 7), &response),
              IsError(StatusCode::kInvalidArgument, "MALFORMED",
                      "not a valid embedding.v1.LookupRequest: rows.keys.values[0] is not valid UTF-8"));
}

TEST(LookupTest, KeysAskedOfATableWithoutKeys) {
  Services services(TablesOf(CountingTable("items", 10, 2)));
  v1::LookupResponse response;
  EXPECT_THAT(
      services.Lookup(KeysRequest({"arm"}), &response),
      IsError(StatusCode::kFailedPrecondition, "NO_KEYS", "table \"items\" has no keys; load it with vocab=FILE"));
}

TEST(LookupTest, MalformedBodiesAreRefused) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  const std::string whole = IdsRequest({1, 2, 3}).SerializeAsString();
  for (size_t size = 1; size < whole.size(); ++size) {
    v1::LookupRequest parsed;
    if (parsed.ParseFromString(whole.substr(0, size))) continue;
    EXPECT_THAT(services.CallBytes("Lookup", whole.substr(0, size), &response),
                IsError(StatusCode::kInvalidArgument, "MALFORMED",
                        "not a valid embedding.v1.LookupRequest: broken protobuf encoding"));
  }
}

TEST(LookupTest, UnknownFieldsAndWrongWireTypesAreSteppedOver) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  // Field 1000 with ten million bytes, before and behind what counts.
  std::string unknown("\xc2\x3e\x80\xad\xe2\x04", 6);
  unknown.append(10000000, 'x');
  ASSERT_EQ(services.CallBytes("Lookup", unknown + IdsRequest({3}).SerializeAsString() + unknown, &response),
            absl::OkStatus());
  EXPECT_THAT(FloatsOf(response.embeddings()), ElementsAre(-1, 0, .5f));
  // rows as a varint: no rows are set then.
  EXPECT_THAT(
      services.CallBytes("Lookup", std::string("\x10\x05", 2), &response),
      IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "rows is unset, must hold ids, keys or id_tensor"));
}

TEST(LookupTest, UnknownEnumNumbersAreRefused) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  v1::LookupRequest request = IdsRequest({1});
  request.set_encoding(static_cast<v1::Encoding>(17));
  EXPECT_THAT(services.Lookup(request, &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "encoding=17, allowed: ENCODING_UNSPECIFIED (0), ENCODING_BYTES (1), ENCODING_FLOATS (2)"));
  request = IdsRequest({1});
  request.set_output_dtype(static_cast<v1::Dtype>(-3));
  EXPECT_THAT(services.Lookup(request, &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "output_dtype=-3, allowed: DTYPE_UNSPECIFIED (0), DTYPE_F32 (1), DTYPE_F16 (2), DTYPE_BF16 (3)"));
  request.set_output_dtype(v1::DTYPE_F64);
  EXPECT_THAT(services.Lookup(request, &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "output_dtype=DTYPE_F64, allowed: DTYPE_UNSPECIFIED (0), DTYPE_F32 (1), DTYPE_F16 (2), "
                      "DTYPE_BF16 (3)"));
  request.set_output_dtype(v1::DTYPE_F16);
  request.set_encoding(v1::ENCODING_FLOATS);
  EXPECT_THAT(services.Lookup(request, &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                      "output_dtype=DTYPE_F16, allowed with ENCODING_FLOATS: DTYPE_UNSPECIFIED (0), DTYPE_F32 (1)"));
}

struct WrongShape {
  std::vector<int64_t> shape;
  std::string message;
};

class LookupShapeTest : public ::testing::TestWithParam<WrongShape> {};

TEST_P(LookupShapeTest, IsRefused) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  EXPECT_THAT(services.Lookup(IdsRequest({1, 2, 3}, GetParam().shape), &response),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, LookupShapeTest,
    ::testing::Values(WrongShape{{2}, "ids.shape [2] has 2 elements, ids has 3 entries"},
                      WrongShape{{0}, "ids.shape [0] has 0 elements, ids has 3 entries"},
                      WrongShape{{1, -3}, "ids.shape[1]=-3, must be >= 0"},
                      WrongShape{{1, 1, 1, 1, 1, 1, 1, 1, 3}, "ids.shape has 9 dimensions, at most 8"},
                      WrongShape{{int64_t{1} << 33, 1, int64_t{1} << 31},
                                 "ids.shape [8589934592, 1, 2147483648] has more elements than 64 bits can count, "
                                 "ids has 3 entries"},
                      WrongShape{{int64_t{1} << 32, 0, int64_t{1} << 32},
                                 "ids.shape [4294967296, 0, 4294967296] has 0 elements, ids has 3 entries"}));

TEST(LookupTest, EightDimensionsAreFine) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  ASSERT_EQ(services.Lookup(IdsRequest({1, 2, 3}, {1, 1, 1, 3, 1, 1, 1, 1}), &response), absl::OkStatus());
  EXPECT_THAT(ShapeOf(response.embeddings()), ElementsAre(1, 1, 1, 3, 1, 1, 1, 1, 3));
}

TEST(LookupTest, IdTensorsAreCheckedBeforeTheyAreRead) {
  Services services(TablesOf(ToyTable()));
  const auto lookup = [&](const v1::Tensor& tensor) {
    v1::LookupRequest request;
    *request.mutable_rows()->mutable_id_tensor() = tensor;
    v1::LookupResponse response;
    return services.Lookup(request, &response);
  };
  v1::Tensor tensor;
  tensor.set_data(std::string(16, '\0'));
  EXPECT_THAT(lookup(tensor), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                      "id_tensor.dtype=DTYPE_UNSPECIFIED, allowed: DTYPE_I32, DTYPE_I64"));
  tensor.set_dtype(v1::DTYPE_I64);
  tensor.add_shape(3);
  const absl::Status status = lookup(tensor);
  EXPECT_THAT(status, IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                              "id_tensor.shape [3] has 3 elements of 8 bytes, data has 16 bytes"));
  EXPECT_EQ(FieldOf(status), "rows.id_tensor.shape");
  tensor.set_data(std::string(15, '\0'));
  EXPECT_THAT(lookup(tensor), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                      "id_tensor.data has 15 bytes, must be a multiple of 8"));
  tensor.add_values(1);
  EXPECT_THAT(lookup(tensor), IsError(StatusCode::kInvalidArgument, "INVALID_FIELD",
                                      "id_tensor.values has 1 entries, ids go into data"));
  v1::Tensor wrong_id;
  wrong_id.set_dtype(v1::DTYPE_I32);
  wrong_id.set_data(RawBytes(std::vector<int32_t>{0, -2}));
  EXPECT_THAT(lookup(wrong_id),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", "id_tensor[1]=-2, must be >= 0"));
}

TEST(LookupTest, ExpiredCallsDoNotReachTheTable) {
  Services services(TablesOf(ToyTable()));
  const auto call = std::make_shared<FakeCall>(BodyOf(IdsRequest({1}).SerializeAsString()));
  call->StopAfterPolls(0);
  services.methods.at("Lookup").handle(call);
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_expired_before_run_total", {{"grpc_method", "Lookup"}}), 1);
  EXPECT_EQ(MetricValue(services.metrics, "embedding_stage_seconds", {{"grpc_method", "Lookup"}, {"stage", "decode"}}),
            0);
}

TEST(LookupTest, StopsWithinALargeAnswer) {
  Services services(TablesOf(CountingTable("items", 10, 1024)));  // narrow enough to be copied
  const auto call = std::make_shared<FakeCall>(BodyOf(IdsRequest(std::vector<int64_t>(8192, 1)).SerializeAsString()));
  call->StopAfterPolls(3);  // on arrival and twice between pieces of 4 MiB, of 32 MiB
  services.methods.at("Lookup").handle(call);
  EXPECT_EQ(call->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call->polls(), 4);
  EXPECT_EQ(services.admission.in_flight_bytes(), 0);
}

TEST(LookupTest, NoTableYetAndShuttingDownAreUnavailable) {
  Services loading(std::vector<std::string>{"toy"});
  v1::LookupResponse response;
  EXPECT_THAT(loading.Lookup(IdsRequest({1}), &response),
              IsError(StatusCode::kUnavailable, "LOADING", "no table loaded yet"));
  Services draining(TablesOf(ToyTable()));
  draining.registry.BeginShutdown();
  EXPECT_THAT(draining.Lookup(IdsRequest({1}), &response),
              IsError(StatusCode::kUnavailable, "SHUTTING_DOWN", "server is shutting down"));
}

TEST(LookupTest, NamesTheTableAndVersionThatDoNotExist) {
  Services services(TablesOf(ToyTable()));
  v1::LookupResponse response;
  v1::LookupRequest request = IdsRequest({1});
  request.mutable_table()->set_name("toy");
  request.mutable_table()->set_version(1);
  EXPECT_EQ(services.Lookup(request, &response), absl::OkStatus());
  request.mutable_table()->set_version(2);
  EXPECT_THAT(services.Lookup(request, &response),
              IsError(StatusCode::kNotFound, "VERSION_NOT_FOUND", "table \"toy\" serves version 1, not 2"));
  request.mutable_table()->set_name("yot");
  EXPECT_THAT(services.Lookup(request, &response),
              IsError(StatusCode::kNotFound, "TABLE_NOT_FOUND", "table \"yot\" does not exist; tables: \"toy\""));
}

}  // namespace
}  // namespace embedding::testing
