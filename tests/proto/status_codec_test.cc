#include "proto/status_codec.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "proto/utf8.h"

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

ErrorDetails SomeDetails() {
  return {"ID_OUT_OF_RANGE",
          {{"id", "7"}, {"table", "items"}},
          {{"rows.ids.values[3]", "is 7, table has 5 rows"}, {"k", "must be >= 1"}}};
}

TEST(StatusCodecTest, DetailsAreWhatEveryGrpcClientReads) {
  const grpc::Status status =
      ToGrpcStatus(ErrorWithDetails(absl::StatusCode::kOutOfRange, "ids[3] is 7", SomeDetails()));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(status.error_message(), "ids[3] is 7");
  google::rpc::Status rich;
  ASSERT_TRUE(rich.ParseFromString(status.error_details()));
  EXPECT_EQ(rich.code(), 11);
  // Python's grpc_status refuses details whose message is another than the status's.
  EXPECT_EQ(rich.message(), "ids[3] is 7");
  ASSERT_EQ(rich.details_size(), 2);
  EXPECT_EQ(rich.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(rich.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "ID_OUT_OF_RANGE");
  EXPECT_EQ(info.domain(), "embedding.v1");
  EXPECT_EQ(info.metadata().at("id"), "7");
  EXPECT_EQ(rich.details(1).type_url(), "type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest bad;
  ASSERT_TRUE(rich.details(1).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 2);
  EXPECT_EQ(bad.field_violations(0).field(), "rows.ids.values[3]");
  EXPECT_EQ(bad.field_violations(0).description(), "is 7, table has 5 rows");
}

TEST(StatusCodecTest, ComesBackFromTheWireAsItWas) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status sent = ErrorWithDetails(static_cast<absl::StatusCode>(code), "what happened", SomeDetails());
    const absl::Status received = FromGrpcStatus(ToGrpcStatus(sent));
    EXPECT_EQ(received.code(), sent.code());
    EXPECT_EQ(received.message(), sent.message());
    const ErrorDetails details = DetailsOf(received);
    EXPECT_EQ(details.reason, "ID_OUT_OF_RANGE");
    EXPECT_THAT(details.metadata, ElementsAre(Pair("id", "7"), Pair("table", "items")));
    ASSERT_EQ(details.violations.size(), 2u);
    EXPECT_EQ(details.violations[1].field, "k");
    EXPECT_EQ(details.violations[1].description, "must be >= 1");
  }
}

TEST(StatusCodecTest, OkAndPlainStatusesHaveNoDetails) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
  const grpc::Status plain = ToGrpcStatus(absl::CancelledError("gone"));
  EXPECT_EQ(plain.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(plain.error_details(), IsEmpty());
  EXPECT_THAT(DetailsOf(FromGrpcStatus(plain)).reason, IsEmpty());
}

TEST(StatusCodecTest, ForeignDetailsAreLeftOut) {
  EXPECT_THAT(DetailsOf(FromGrpcStatus({grpc::StatusCode::INTERNAL, "m", "\xff not a message"})).reason, IsEmpty());
  google::rpc::Status rich;
  rich.add_details()->PackFrom(google::rpc::BadRequest::FieldViolation());
  google::rpc::ErrorInfo info;
  info.set_reason("FIRST");
  rich.add_details()->PackFrom(info);
  info.set_reason("SECOND");
  rich.add_details()->PackFrom(info);
  const absl::Status status = FromGrpcStatus({grpc::StatusCode::INTERNAL, "m", rich.SerializeAsString()});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(DetailsOf(status).reason, "FIRST");
  EXPECT_EQ(FromGrpcStatus({static_cast<grpc::StatusCode>(17), "m"}).code(), absl::StatusCode::kUnknown);
}

struct Line {
  std::string text;
  std::string printable;
};

class MessageTest : public ::testing::TestWithParam<Line> {};

TEST_P(MessageTest, IsOneLineOfPrintableText) {
  EXPECT_EQ(ErrorWithDetails(absl::StatusCode::kInternal, GetParam().text, {}).message(), GetParam().printable);
}

INSTANTIATE_TEST_SUITE_P(
    All, MessageTest,
    ::testing::Values(Line{"plain \"quoted\" \\", "plain \"quoted\" \\"},  //
                      Line{"two\nlines\r\n", "two\\nlines\\x0d\\n"}, Line{std::string("a\0b", 3), "a\\x00b"},
                      Line{"\x1b[31m\x7f", "\\x1b[31m\\x7f"},
                      Line{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\xa4\x96", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\xa4\x96"},
                      Line{"\xff\xc3", "\\xff\\xc3"}, Line{"\xc2\x85", "\\xc2\\x85"},
                      Line{"\xe2\x80\xa8", "\\xe2\\x80\\xa8"}, Line{"\xe2\x80\xae", "\\xe2\\x80\\xae"},
                      Line{"\xe2\x81\xa7", "\\xe2\\x81\\xa7"}, Line{std::string(512, 'x'), std::string(512, 'x')},
                      Line{std::string(513, 'x'), std::string(509, 'x') + "..."}));

TEST(EscapedTest, QuotesAreEscapedAndLengthIsCut) {
  EXPECT_EQ(Escaped("say \"hi\" \\"), "say \\\"hi\\\" \\\\");
  EXPECT_EQ(Escaped(std::string(64, 'x')), std::string(64, 'x'));
  EXPECT_EQ(Escaped(std::string(65, 'x')), std::string(61, 'x') + "...");
  EXPECT_EQ(Escaped("abcdef", 5), "ab...");
  // Never through the middle of a character or of an escape.
  EXPECT_EQ(Escaped("\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 8), "\xe2\x82\xac...");
  EXPECT_EQ(Escaped("a\n\n\n\n", 7), "a\\n...");
}

TEST(StatusCodecTest, WhateverIsPutInStaysWithinFourKibibytes) {
  std::mt19937 random(20261129);
  const auto text = [&](size_t max) {
    std::string bytes(random() % max, '\0');
    const bool ascii = random() % 2 == 0;
    for (char& byte : bytes) byte = ascii ? static_cast<char>('a' + random() % 26) : static_cast<char>(random());
    return bytes;
  };
  for (int round = 0; round < 300; ++round) {
    ErrorDetails details;
    details.reason = text(200);
    for (uint32_t i = random() % 40; i > 0; --i) details.metadata.emplace_back(text(100), text(5000));
    for (uint32_t i = random() % 40; i > 0; --i) details.violations.push_back({text(300), text(5000)});
    const std::string message = text(3000);
    for (const absl::Status& status : {ErrorWithDetails(absl::StatusCode::kInvalidArgument, message, details),
                                       absl::Status(absl::StatusCode::kInternal, message)}) {
      const grpc::Status wire = ToGrpcStatus(status);
      ASSERT_LE(wire.error_message().size(), 512u);
      ASSERT_TRUE(IsValidUtf8(wire.error_message()));
      for (const char c : wire.error_message()) ASSERT_GE(static_cast<unsigned char>(c), 0x20);
      // As HTTP/2 carries them: percent-encoded and base64.
      size_t encoded = 0;
      for (const char c : wire.error_message()) encoded += c >= 0x20 && c < 0x7F && c != '%' ? 1 : 3;
      ASSERT_LT(encoded + (wire.error_details().size() + 2) / 3 * 4, 4096u);
      google::rpc::Status rich;
      ASSERT_TRUE(rich.ParseFromString(wire.error_details()));
    }
  }
}

TEST(StatusCodecTest, ViolationsAreDroppedBeforeMetadata) {
  ErrorDetails details = {"REASON", {{"first", std::string(400, 'x')}, {"second", "y"}}, {}};
  for (int i = 0; i < 50; ++i) details.violations.push_back({"field", std::string(300, 'z')});
  const ErrorDetails kept = DetailsOf(ErrorWithDetails(absl::StatusCode::kInvalidArgument, "m", details));
  EXPECT_EQ(kept.metadata.size(), 2u);
  EXPECT_GT(kept.violations.size(), 2u);
  EXPECT_LT(kept.violations.size(), 12u);
}

}  // namespace
}  // namespace embedding
