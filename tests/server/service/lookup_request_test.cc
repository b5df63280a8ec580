#include "server/service/lookup_request.h"

#include <random>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "server/service/wire_writer.h"
#include "tests/server/service/same_as_protobuf.h"

namespace embedding::testing {
namespace {

std::string Varint(uint64_t value) {
  uint8_t bytes[10];
  return std::string(reinterpret_cast<char*>(bytes), static_cast<size_t>(PutVarint(value, bytes) - bytes));
}

std::string Tag(uint32_t number, uint32_t type) { return Varint(uint64_t{number} << 3 | type); }

std::string Message(uint32_t number, const std::string& bytes) { return Tag(number, 2) + Varint(bytes.size()) + bytes; }

// `depth` groups of one number, one in the other.
std::string Groups(uint32_t number, int depth) {
  std::string bytes;
  for (int i = 0; i < depth; ++i) bytes += Tag(number, 3);
  for (int i = 0; i < depth; ++i) bytes += Tag(number, 4);
  return bytes;
}

struct Case {
  const char* name;
  std::string bytes;
  bool accepted;
};

std::string Ids(const std::string& list) { return Message(2, Message(1, list)); }

std::string Pooling(const std::string& fields) { return Message(3, fields); }

std::vector<Case> Cases() {
  const std::string packed = Message(1, "\x01\x02\x03");
  return {
      {"Nothing", "", true},
      {"PackedIds", Ids(packed), true},
      {"UnpackedIds", Ids("\x08\x01\x08\x02"), true},
      {"PackedAndUnpackedIds", Ids(packed + "\x08\x09" + packed), true},
      {"RowsMerge", Ids(packed) + Ids(packed), true},
      {"LastMemberWins", Message(2, Message(1, packed) + Message(2, Message(1, "key"))), true},
      {"MemberComesBackEmpty", Message(2, Message(1, packed) + Message(2, "") + Message(1, "")), true},
      {"LastScalarWins", Tag(8, 0) + Varint(1) + Tag(8, 0) + Varint(2), true},
      {"TableMerges", Message(1, Message(1, "a")) + Message(1, Tag(2, 0) + Varint(7)), true},
      {"EnumOfElevenTopBits", Tag(7, 0) + Varint(0xFFFFFFFF00000003), true},
      {"NegativeId", Ids(Message(1, Varint(~uint64_t{0}))), true},
      {"TenByteVarintWithExcessBits", Ids(Message(1, std::string(9, '\xff') + "\x7f")), true},
      {"ElevenByteVarint", Ids(Message(1, std::string(10, '\xff') + "\x01")), false},
      {"PaddedVarint", Ids(Message(1, std::string("\x83\x80\x80\x00", 4))), true},
      {"VarintCutShort", Ids(Message(1, "\x80")), false},
      {"PaddedTag", std::string("\xc0\x80\x00\x01", 4), true},
      {"FiveByteTagWithExcessBits", std::string("\xc0\x80\x80\x80\x70\x01", 6), true},
      {"SixByteTag", std::string("\xc0\x80\x80\x80\x80\x00\x01", 7), false},
      {"PaddedLength", std::string("\x12\x80\x80\x80\x80\x00", 6), true},
      {"SixByteLength", std::string("\x12\x80\x80\x80\x80\x80\x00", 7), false},
      {"LengthOfTwoGibibytes", std::string("\x12\x80\x80\x80\x80\x08", 6), false},
      {"LengthBeyondTheEnd", std::string("\x12\x05\x0a", 3), false},
      {"SubMessageBeyondItsParent", Message(2, std::string("\x0a\x05\x08", 3)) + "\x01\x08\x01\x08", false},
      {"FieldNumberZero", std::string("\x00\x01", 2), false},
      {"EndGroupAlone", Tag(9, 4), false},
      {"EmptyGroup", Groups(9, 1), true},
      {"GroupOfAnotherEnd", Tag(9, 3) + Tag(10, 4), false},
      {"GroupWithoutEnd", Tag(9, 3), false},
      {"GroupCutByItsMessage", Message(2, Tag(9, 3)) + Tag(9, 4), false},
      {"HundredGroups", Groups(9, 100), true},
      {"HundredAndOneGroups", Groups(9, 101), false},
      {"NinetyEightGroupsInIds", Ids(Groups(9, 98)), true},
      {"NinetyNineGroupsInIds", Ids(Groups(9, 99)), false},
      {"GroupOfAKnownNumber", Groups(2, 1), true},
      {"WireTypeSix", Tag(9, 6), false},
      {"WireTypeSeven", Tag(2, 7), false},
      {"UnknownOfEveryType",
       Tag(9, 0) + Varint(1) + Tag(9, 1) + std::string(8, 'x') + Message(9, "x") + Tag(9, 5) + std::string(4, 'x'),
       true},
      {"Fixed64CutShort", Tag(9, 1) + std::string(7, 'x'), false},
      {"Fixed32CutShort", Tag(9, 5) + std::string(3, 'x'), false},
      {"RowsAsVarint", Tag(2, 0) + Varint(1), true},
      {"IdsAsFixed64", Message(2, Tag(1, 1) + std::string(8, 'x')), true},
      {"EncodingAsBytes", Message(8, "x"), true},
      {"KeyThatIsNotUtf8", Message(2, Message(2, Message(1, "\xff"))), false},
      {"ReplacedKeyThatIsNotUtf8", Message(2, Message(2, Message(1, "\xff")) + Message(1, packed)), false},
      {"OverlongUtf8", Message(2, Message(2, Message(1, "\xc0\x80"))), false},
      {"SurrogateInUtf8", Message(2, Message(2, Message(1, "\xed\xa0\x80"))), false},
      {"AboveTheLastCharacter", Message(2, Message(2, Message(1, "\xf4\x90\x80\x80"))), false},
      {"EveryLengthOfUtf8", Message(2, Message(2, Message(1, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\xa4\x96 and eight more"))),
       true},
      {"Utf8CutShort", Message(2, Message(2, Message(1, "\xe2\x82"))), false},
      {"NameThatIsNotUtf8", Message(1, Message(1, "\xff")), false},
      {"Tensor", Message(2, Message(3, Tag(1, 0) + Varint(9) + Message(2, "\x01") + Message(3, "1234"))), true},
      {"TensorDataThatIsNotUtf8", Message(2, Message(3, Message(3, "\xff\xff"))), true},
      {"TensorValues", Message(2, Message(3, Message(4, "12345678") + Tag(4, 5) + "1234")), true},
      {"TensorValuesOfFiveBytes", Message(2, Message(3, Message(4, "12345"))), false},
      {"EmptyPooling", Pooling(""), true},
      {"Pooling",
       Pooling(Tag(1, 0) + Varint(2) + Message(2, std::string("\x00\x02", 2)) + Tag(3, 0) + Varint(1) +
               Message(4, std::string("\x00\x00\x80\x3f", 4)) + Tag(5, 0) + Varint(0)),
       true},
      {"PoolingMerges", Pooling(Tag(1, 0) + Varint(2)) + Pooling(Message(2, "\x03") + Tag(5, 0) + Varint(9)), true},
      {"PoolingScalarsOfBothWin", Pooling(Tag(1, 0) + Varint(2)) + Pooling(Tag(1, 0) + Varint(1)), true},
      {"UnpackedOffsets", Pooling(Tag(2, 0) + Varint(0) + Message(2, "\x01\x02") + Tag(2, 0) + Varint(3)), true},
      {"OffsetsCutShort", Pooling(Message(2, "\x80")), false},
      {"UnpackedWeights", Pooling(Tag(4, 5) + "1234" + Message(4, "12345678") + Tag(4, 5) + "abcd"), true},
      {"WeightThatIsNan", Pooling(Message(4, std::string("\x01\x00\xc0\xff", 4))), true},
      {"WeightsOfFiveBytes", Pooling(Message(4, "12345")), false},
      {"WeightCutShort", Pooling(Tag(4, 5) + "123"), false},
      {"WeightsAsFixed64", Pooling(Tag(4, 1) + "12345678"), true},
      {"PaddingOfMinusOne", Pooling(Tag(5, 0) + Varint(~uint64_t{0})), true},
      {"BoolOfAHighBit", Pooling(Tag(3, 0) + Varint(uint64_t{1} << 40)) + Tag(5, 0) + Varint(uint64_t{1} << 63), true},
      {"BoolSetBack", Tag(5, 0) + Varint(1) + Tag(5, 0) + Varint(0), true},
      {"NinetyNineGroupsInPooling", Pooling(Groups(9, 99)), true},
      {"HundredGroupsInPooling", Pooling(Groups(9, 100)), false},
      {"MissingNormalizeDimensions",
       Tag(4, 0) + Varint(3) + Tag(5, 0) + Varint(1) + Tag(6, 0) + Varint(~uint64_t{0}) + Tag(6, 0) + Varint(64), true},
      {"MissingAsBytes", Message(4, "\x01"), true},
      {"ShapeOfTwelve", Ids(packed + Message(2, std::string(12, '\x01'))), true},
  };
}

class LookupRequestTest : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { google::protobuf::SetLogHandler(nullptr); }
};

TEST_P(LookupRequestTest, ParsesAsProtobufDoes) {
  LookupRequest request;
  EXPECT_EQ(ParseLookupRequest(GetParam().bytes, &request).ok(), GetParam().accepted);
  EXPECT_EQ(DifferenceFromProtobuf(GetParam().bytes), "");
}

INSTANTIATE_TEST_SUITE_P(All, LookupRequestTest, ::testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

TEST(LookupRequestRandomTest, MutatedRequestsParseAsProtobufDoes) {
  google::protobuf::SetLogHandler(nullptr);
  std::mt19937_64 random(20261129);
  const std::vector<Case> cases = Cases();
  int accepted = 0, refused = 0;
  for (int round = 0; round < 60000; ++round) {
    // Some cases joined, some bytes changed, taken out or put in.
    std::string bytes;
    for (uint64_t i = 0; i <= random() % 3; ++i) bytes += cases[random() % cases.size()].bytes;
    for (uint64_t i = 0; i < random() % 4 && !bytes.empty(); ++i) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1);
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random() % 64));
      }
    }
    ASSERT_EQ(DifferenceFromProtobuf(bytes), "") << ::testing::PrintToString(bytes);
    LookupRequest request;
    ++(ParseLookupRequest(bytes, &request).ok() ? accepted : refused);
  }
  // Both kinds are met often enough to mean something.
  EXPECT_GT(accepted, 6000);
  EXPECT_GT(refused, 6000);
}

TEST(LookupRequestKeepTest, CountsWhatItDoesNotKeep) {
  v1::LookupRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_rows()->mutable_ids()->add_values(i);
  const std::string bytes = request.SerializeAsString();
  LookupRequest parsed;
  ASSERT_TRUE(ParseLookupRequest(bytes, &parsed, 10).ok());
  EXPECT_EQ(parsed.rows.count, 1000);
  EXPECT_EQ(parsed.rows.ids, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_LE(parsed.rows.ids.capacity(), 10u);
}

TEST(LookupRequestKeepTest, CountsOffsetsAndWeightsThatItDoesNotKeep) {
  v1::LookupRequest request;
  for (int i = 0; i < 1000; ++i) {
    request.mutable_pooling()->add_offsets(i);
    request.mutable_pooling()->add_weights(0.5f);
  }
  LookupRequest parsed;
  ASSERT_TRUE(ParseLookupRequest(request.SerializeAsString(), &parsed, 3).ok());
  ASSERT_TRUE(parsed.pooling.has_value());
  EXPECT_EQ(parsed.pooling->num_offsets, 1000);
  EXPECT_EQ(parsed.pooling->offsets, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_LE(parsed.pooling->offsets.capacity(), 4u);
  EXPECT_EQ(parsed.pooling->num_weights, 1000);
  EXPECT_EQ(parsed.pooling->weights, (std::vector<float>{0.5f, 0.5f, 0.5f}));
  EXPECT_LE(parsed.pooling->weights.capacity(), 3u);
}

}  // namespace
}  // namespace embedding::testing
