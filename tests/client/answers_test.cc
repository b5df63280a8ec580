#include "client/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace embedding::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::Tensor WireTensor(v1::Dtype dtype, std::vector<int64_t> shape, size_t bytes) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.set_data(std::string(bytes, '\1'));
  return tensor;
}

struct TensorCase {
  const char* name;
  v1::Dtype dtype;
  std::vector<int64_t> shape;
  size_t bytes;
  size_t num_rows;
  bool right;
};

class TakeTensorTest : public testing::TestWithParam<TensorCase> {};

TEST_P(TakeTensorTest, BelievesOnlyWhatAddsUp) {
  const TensorCase& c = GetParam();
  v1::Tensor wire = WireTensor(c.dtype, c.shape, c.bytes);
  Tensor tensor;
  const absl::Status status = TakeTensor(wire, c.num_rows, "embeddings", tensor);
  if (c.right) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(tensor.data.size(), c.bytes);
    EXPECT_EQ(tensor.shape, c.shape);
  } else {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the server's answer breaks the contract: embeddings"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TakeTensorTest,
    testing::Values(TensorCase{"rows", v1::DTYPE_F32, {2, 3}, 24, 2, true},
                    TensorCase{"half", v1::DTYPE_BF16, {2, 2, 3}, 24, 4, true},
                    TensorCase{"empty", v1::DTYPE_F16, {0, 3}, 0, 0, true},
                    TensorCase{"no_shape", v1::DTYPE_F32, {}, 4, 1, false},
                    TensorCase{"fewer_rows", v1::DTYPE_F32, {1, 3}, 12, 2, false},
                    TensorCase{"fewer_bytes", v1::DTYPE_F32, {2, 3}, 23, 2, false},
                    TensorCase{"more_bytes", v1::DTYPE_F16, {2, 3}, 13, 2, false},
                    TensorCase{"negative_size", v1::DTYPE_F32, {-2, -3}, 24, 2, false},
                    TensorCase{"product_beyond_64_bits", v1::DTYPE_F32, {2, int64_t{1} << 62}, 0, 2, false},
                    TensorCase{"double", v1::DTYPE_F64, {2, 3}, 48, 2, false},
                    TensorCase{"unspecified", v1::DTYPE_UNSPECIFIED, {2, 3}, 24, 2, false},
                    TensorCase{"unknown_number", static_cast<v1::Dtype>(77), {2, 3}, 24, 2, false}),
    [](const testing::TestParamInfo<TensorCase>& test) { return test.param.name; });

TEST(TakeScoresTest, NeedsAsManyFloatsAsPairs) {
  std::vector<float> scores(3);
  v1::Tensor right = WireTensor(v1::DTYPE_F32, {3}, 12);
  EXPECT_TRUE(TakeScores(right, scores).ok());
  v1::Tensor shorter = WireTensor(v1::DTYPE_F32, {3}, 8);
  EXPECT_EQ(TakeScores(shorter, scores).code(), absl::StatusCode::kInternal);
  v1::Tensor other = WireTensor(v1::DTYPE_F16, {6}, 12);
  EXPECT_EQ(TakeScores(other, scores).code(), absl::StatusCode::kInternal);
}

TEST(TakeNeighboursTest, NeedsAResultPerQueryAndAlignedColumns) {
  NearestNeighbourRequest request;
  request.k = 2;
  request.return_keys = true;
  std::vector<Neighbours> out(1);
  v1::NearestNeighbourResponse wire;
  EXPECT_EQ(TakeNeighbours(wire, request, out).code(), absl::StatusCode::kInternal);  // no result

  v1::Neighbours& neighbours = *wire.add_results();
  neighbours.add_ids(4);
  neighbours.add_scores(0.5f);
  EXPECT_EQ(TakeNeighbours(wire, request, out).code(), absl::StatusCode::kInternal);  // no key
  neighbours.add_keys("four");
  v1::NearestNeighbourResponse right = wire;
  ASSERT_TRUE(TakeNeighbours(right, request, out).ok());
  EXPECT_THAT(out[0].ids, ElementsAre(4));
  EXPECT_THAT(out[0].keys, ElementsAre("four"));

  neighbours.add_ids(5);
  EXPECT_EQ(TakeNeighbours(wire, request, out).code(), absl::StatusCode::kInternal);  // no score
  neighbours.add_scores(0.4f);
  neighbours.add_keys("");
  neighbours.add_ids(6);
  neighbours.add_scores(0.3f);
  neighbours.add_keys("six");
  EXPECT_EQ(TakeNeighbours(wire, request, out).code(), absl::StatusCode::kInternal);  // three for k = 2
}

TEST(TakeNeighboursTest, NeedsAVectorForEachIdWhenAskedFor) {
  NearestNeighbourRequest request;
  request.return_vectors = true;
  std::vector<Neighbours> out(1);
  v1::NearestNeighbourResponse wire;
  v1::Neighbours& neighbours = *wire.add_results();
  neighbours.add_ids(4);
  neighbours.add_scores(0.5f);
  EXPECT_EQ(TakeNeighbours(wire, request, out).code(), absl::StatusCode::kInternal);
  *neighbours.mutable_vectors() = WireTensor(v1::DTYPE_F16, {1, 3}, 6);
  EXPECT_TRUE(TakeNeighbours(wire, request, out).ok());
}

TEST(TakePositionsTest, NeedsAscendingPositionsOfThePart) {
  const auto take = [](std::vector<int64_t> positions, std::vector<int64_t>* out) {
    google::protobuf::RepeatedField<int64_t> wire(positions.begin(), positions.end());
    return TakePositions(wire, /*begin=*/10, /*size=*/3, "missing_left", *out);
  };
  std::vector<int64_t> out = {7};
  EXPECT_TRUE(take({0, 2}, &out).ok());
  EXPECT_THAT(out, ElementsAre(7, 10, 12));
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{3}, {-1}, {1, 1}, {2, 0}}) {
    EXPECT_EQ(take(wrong, &out).code(), absl::StatusCode::kInternal);
  }
}

TEST(CheckResolvedTest, NeedsAKeyForEachIdAndOneForEachRow) {
  v1::ResolveKeysResponse wire;
  wire.add_ids(1);
  EXPECT_EQ(CheckResolved(wire, std::nullopt).code(), absl::StatusCode::kInternal);
  wire.add_keys("one");
  EXPECT_TRUE(CheckResolved(wire, std::nullopt).ok());
  EXPECT_TRUE(CheckResolved(wire, 1).ok());
  EXPECT_EQ(CheckResolved(wire, 2).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace embedding::client
