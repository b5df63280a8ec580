#include "client/loadtest/answer_checker.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "tests/client/loadtest/fake_server.h"

namespace embedding::loadtest {
namespace {

using testing::HasSubstr;

v1::LookupResponse AnswerTo(const Workload& workload, uint64_t call) {
  std::vector<int64_t> ids;
  workload.IdsOf(call, &ids);
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids()->mutable_values()->Add(ids.begin(), ids.end());
  v1::LookupResponse response;
  FakeServer server;
  EXPECT_TRUE(server.Lookup(nullptr, &request, &response).ok());
  return response;
}

// The answer in pieces of `block_size` bytes, as a transport may deliver it; -1 = in one.
Verdict Check(AnswerChecker& checker, uint64_t call, const std::string& bytes, int block_size, std::string* complaint) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), block_size);
  return checker.Check(call, &stream, complaint);
}

class ChunkedTest : public testing::TestWithParam<int> {};

TEST_P(ChunkedTest, RowsAreComparedWhereverTheBytesAreCut) {
  const Workload workload({.batch_size = 9}, FakeTable::Info());
  const ReferenceTable reference = FakeReference();
  AnswerChecker checker(workload, &reference);
  v1::LookupResponse answer = AnswerTo(workload, 5);
  std::string complaint;
  EXPECT_EQ(Check(checker, 5, answer.SerializeAsString(), GetParam(), &complaint), Verdict::kVerified) << complaint;
  // The last bit of the last row.
  answer.mutable_embeddings()->mutable_data()->back() ^= 1;
  EXPECT_EQ(Check(checker, 5, answer.SerializeAsString(), GetParam(), &complaint), Verdict::kMismatch);
  EXPECT_THAT(complaint, HasSubstr("call 5: row 8 of the answer is not the row of id"));
}

INSTANTIATE_TEST_SUITE_P(BlockSizes, ChunkedTest, testing::Values(1, 3, 31, 32, 33, 64, 100, -1));

struct MalformedCase {
  std::string name;
  std::function<void(v1::LookupResponse&)> spoil;
  std::string complaint;
};

class MalformedTest : public testing::TestWithParam<MalformedCase> {};

TEST_P(MalformedTest, IsNoticedWithoutAReference) {
  const Workload workload({.batch_size = 9}, FakeTable::Info());
  AnswerChecker checker(workload, nullptr);
  v1::LookupResponse answer = AnswerTo(workload, 0);
  std::string complaint;
  ASSERT_EQ(Check(checker, 0, answer.SerializeAsString(), -1, &complaint), Verdict::kUnchecked) << complaint;
  GetParam().spoil(answer);
  EXPECT_EQ(Check(checker, 0, answer.SerializeAsString(), -1, &complaint), Verdict::kMalformed);
  EXPECT_THAT(complaint, HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedTest,
    testing::Values(
        MalformedCase{"Dtype", [](v1::LookupResponse& a) { a.mutable_embeddings()->set_dtype(v1::DTYPE_F16); },
                      "dtype 2"},
        MalformedCase{"Rows", [](v1::LookupResponse& a) { a.mutable_embeddings()->set_shape(0, 8); }, "not [9, 8]"},
        MalformedCase{"Width", [](v1::LookupResponse& a) { a.mutable_embeddings()->set_shape(1, 9); }, "not [9, 8]"},
        MalformedCase{"Rank", [](v1::LookupResponse& a) { a.mutable_embeddings()->add_shape(1); }, "not [9, 8]"},
        MalformedCase{"Bytes", [](v1::LookupResponse& a) { a.mutable_embeddings()->mutable_data()->push_back(0); },
                      "289 bytes of data, 288 were due"},
        MalformedCase{"Nothing", [](v1::LookupResponse& a) { a.Clear(); }, "dtype 0"}),
    [](const auto& param) { return param.param.name; });

TEST(AnswerCheckerTest, EveryCutIsNoticed) {
  const Workload workload({.batch_size = 3}, FakeTable::Info());
  const ReferenceTable reference = FakeReference();
  AnswerChecker checker(workload, &reference);
  const std::string bytes = AnswerTo(workload, 1).SerializeAsString();
  std::string complaint;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(Check(checker, 1, bytes.substr(0, length), 7, &complaint), Verdict::kMalformed) << length;
  }
}

// The server leaves out the closest row of each query: of the five that are due, four are found.
TEST(AnswerCheckerTest, OfApproximateSearchesTheClosestRowsFoundAreCounted) {
  const Workload workload({.rpc = Rpc::kNeighbours, .batch_size = 2, .k = 5, .approximate = true}, FakeTable::Info());
  const ReferenceTable reference = FakeReference();
  AnswerChecker checker(workload, &reference);
  std::vector<int64_t> ids;
  workload.IdsOf(0, &ids);
  v1::NearestNeighbourRequest request;
  request.mutable_targets()->mutable_rows()->mutable_ids()->mutable_values()->Add(ids.begin(), ids.end());
  request.set_k(5);
  v1::NearestNeighbourResponse answer;
  FakeServer server(Fault::kMissedClosest);
  ASSERT_TRUE(server.NearestNeighbour(nullptr, &request, &answer).ok());
  std::string complaint;
  Check(checker, 0, answer.SerializeAsString(), -1, &complaint);
  MonotonicClock clock;
  const AnswerChecker::KeptChecks checks = checker.CheckKept(clock, INT64_MAX);
  EXPECT_EQ(checks.mismatches, 0) << checks.first_complaint;
  EXPECT_EQ(checks.closest_due, 10);
  EXPECT_EQ(checks.closest_found, 8);
}

TEST(AnswerCheckerTest, FieldsOfALaterVersionAreSkipped) {
  const Workload workload({.batch_size = 3}, FakeTable::Info());
  const ReferenceTable reference = FakeReference();
  AnswerChecker checker(workload, &reference);
  // Field 99: a varint, eight bytes, a string, four bytes.
  const std::string unknown(
      "\x98\x06\x05\x99\x06"
      "12345678"
      "\x9a\x06\x03"
      "abc"
      "\x9d\x06"
      "1234",
      25);
  std::string complaint;
  EXPECT_EQ(Check(checker, 1, unknown + AnswerTo(workload, 1).SerializeAsString(), -1, &complaint), Verdict::kVerified)
      << complaint;
}

// 16-bit patterns by hand: 0x3C00 = 1, 0xC000 = -2, 0x0001 = 2^-24, 0x7BFF = 65504 (IEEE 754 binary16); 0x3F80 = 1,
// 0xC000 = -2 (bfloat16).
TEST(ReferenceTableTest, WidensSixteenBitRows) {
  v1::TableInfo info = FakeTable::Info();
  info.set_rows(2);
  info.set_dim(4);
  info.set_dtype(v1::DTYPE_F16);
  const auto table_of = [&info](const std::string& first, const std::string& second) {
    ReferenceTable table(info);
    v1::LookupResponse row;
    row.mutable_table()->set_version(1);
    row.mutable_table()->set_fingerprint("f");
    row.mutable_embeddings()->set_dtype(info.dtype());
    row.mutable_embeddings()->add_shape(1);
    row.mutable_embeddings()->add_shape(4);
    std::string error;
    row.mutable_embeddings()->set_data(first);
    EXPECT_TRUE(table.SetRow(0, row, &error)) << error;
    row.mutable_embeddings()->set_data(second);
    EXPECT_TRUE(table.SetRow(1, row, &error)) << error;
    return table;
  };
  const ReferenceTable half =
      table_of(std::string("\x00\x3c\x00\xc0\x01\x00\xff\x7b", 8), std::string("\x00\x3c\x00\x3c\x00\x3c\x00\x3c", 8));
  EXPECT_EQ(half.Score(v1::METRIC_DOT, 0, 1), static_cast<float>(1.0 - 2.0 + std::ldexp(1.0, -24) + 65504.0));
  EXPECT_EQ(half.Score(v1::METRIC_EUCLIDEAN, 1, 1), 0.0f);
  info.set_dtype(v1::DTYPE_BF16);
  const ReferenceTable brain =
      table_of(std::string("\x80\x3f\x00\xc0\x00\x00\x00\x00", 8), std::string("\x00\xc0\x80\x3f\x00\x00\x00\x00", 8));
  EXPECT_EQ(brain.Score(v1::METRIC_DOT, 0, 1), -4.0f);
  EXPECT_EQ(brain.Score(v1::METRIC_COSINE, 0, 1), static_cast<float>(-4.0 / (std::sqrt(5.0) * std::sqrt(5.0))));
}

TEST(ReferenceTableTest, RefusesAChangedTable) {
  ReferenceTable reference(FakeTable::Info());
  FakeServer server;
  v1::LookupRequest request;
  request.mutable_rows()->mutable_ids()->add_values(0);
  v1::LookupResponse response;
  ASSERT_TRUE(server.Lookup(nullptr, &request, &response).ok());
  std::string error;
  EXPECT_TRUE(reference.SetRow(0, response, &error));
  response.mutable_table()->set_version(4);
  EXPECT_FALSE(reference.SetRow(1, response, &error));
  EXPECT_THAT(error, HasSubstr("version 3, then 4"));
}

}  // namespace
}  // namespace embedding::loadtest
