// Tensors of query vectors: what is refused, with the whole message.
#include "server/service/operand.h"

#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/server/service/service_testing.h"

namespace embedding::testing {
namespace {

using absl::StatusCode;

// A tensor that a table of width 3 accepts.
v1::Tensor GoodTensor() {
  v1::Tensor tensor;
  SetVectors(&tensor, 3, {1, 2, 3, 4, 5, 6});
  return tensor;
}

template <typename Change>
v1::Tensor Changed(Change change) {
  v1::Tensor tensor = GoodTensor();
  change(tensor);
  return tensor;
}

absl::Status CheckAndResolve(const v1::Tensor& tensor) {
  v1::VectorSet set;
  *set.mutable_vectors() = tensor;
  const auto table = ToyTable();
  Operand operand;
  if (absl::Status status = operand.Check(set, true, RequestLimits(), "left."); !status.ok()) return status;
  if (absl::Status status = operand.CheckWidth(*table); !status.ok()) return status;
  if (absl::Status status = operand.Resolve(*table); !status.ok()) return status;
  EXPECT_EQ(static_cast<int64_t>(operand.views().size()), operand.count());
  return absl::OkStatus();
}

struct WrongTensor {
  const char* name;
  v1::Tensor tensor;
  std::string message;
};

void PrintTo(const WrongTensor& wrong, std::ostream* out) { *out << wrong.name; }

class OperandTest : public ::testing::TestWithParam<WrongTensor> {};

TEST_P(OperandTest, IsRefused) {
  EXPECT_THAT(CheckAndResolve(GetParam().tensor),
              IsError(StatusCode::kInvalidArgument, "INVALID_FIELD", GetParam().message));
}

void Set(v1::Tensor& tensor, std::vector<int64_t> shape, std::string data) {
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.set_data(std::move(data));
}

std::vector<WrongTensor> WrongTensors() {
  const int64_t huge = int64_t{1} << 32;
  return {
      {"OneNumberLess", Changed([](auto& t) {
         Set(t, {2, 2}, std::string(16, '\0'));
       }),
       "left.vectors has 2 values a row, table \"toy\" is 3 wide"},
      {"OneNumberMore", Changed([](auto& t) { Set(t, {4}, std::string(16, '\0')); }),
       "left.vectors has 4 values a row, table \"toy\" is 3 wide"},
      {"NoNumbers", Changed([](auto& t) {
         Set(t, {2, 0}, "");
       }),
       "left.vectors has 0 values a row, table \"toy\" is 3 wide"},
      {"ByteMissing", Changed([](auto& t) { t.mutable_data()->pop_back(); }),
       "left.vectors.shape [2, 3] of DTYPE_F32 needs 24 bytes, data has 23"},
      {"BytesWithoutRows", Changed([](auto& t) {
         Set(t, {0, 3}, "1234");
       }),
       "left.vectors.shape [0, 3] of DTYPE_F32 needs 0 bytes, data has 4"},
      {"ProductAbove32Bits", Changed([=](auto& t) {
         Set(t, {huge, 3}, std::string(12, '\0'));
       }),
       "left.vectors.shape [4294967296, 3] of DTYPE_F32 needs 51539607552 bytes, data has 12"},
      {"ProductAbove64Bits", Changed([=](auto& t) {
         Set(t, {huge, huge}, std::string(12, '\0'));
       }),
       "left.vectors.shape [4294967296, 4294967296] has more bytes than 64 bits can count, data has 12 bytes"},
      {"NegativeSize", Changed([](auto& t) {
         Set(t, {-2, -3}, "");
       }),
       "left.vectors.shape[0]=-2, must be >= 0"},
      {"NoShape", Changed([](auto& t) { t.clear_shape(); }),
       "left.vectors.shape [] has 0 dimensions, must be [n, d] or [d]"},
      {"ThreeDimensions", Changed([](auto& t) {
         Set(t, {1, 2, 3}, std::string(24, '\0'));
       }),
       "left.vectors.shape [1, 2, 3] has 3 dimensions, must be [n, d] or [d]"},
      {"DtypeUnset", Changed([](auto& t) { t.clear_dtype(); }),
       "left.vectors.dtype=DTYPE_UNSPECIFIED, allowed: DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64"},
      {"DtypeOfIds", Changed([](auto& t) { t.set_dtype(v1::DTYPE_I32); }),
       "left.vectors.dtype=DTYPE_I32, allowed: DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64"},
      {"DtypeUnknown", Changed([](auto& t) { t.set_dtype(static_cast<v1::Dtype>(99)); }),
       "left.vectors.dtype=99, allowed: DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64"},
      {"DataAndValues", Changed([](auto& t) { t.add_values(1); }),
       "left.vectors has 24 bytes of data and 1 values, must have one of them"},
      {"ValuesOfAnotherDtype", Changed([](auto& t) {
         t.clear_data();
         t.add_values(1);
         t.set_dtype(v1::DTYPE_F16);
       }),
       "left.vectors.dtype=DTYPE_F16, allowed with values: DTYPE_F32 or unset"},
      {"ValueMissing", Changed([](auto& t) {
         t.clear_data();
         for (int i = 0; i < 5; ++i) t.add_values(1);
       }),
       "left.vectors.shape [2, 3] needs 6 values, values has 5"},
      {"NeitherDataNorValues", Changed([](auto& t) { t.clear_data(); }),
       "left.vectors.shape [2, 3] of DTYPE_F32 needs 24 bytes, data has 0"},
      {"NegativeInfinity", Changed([](auto& t) {
         t.set_data(RawBytes(std::vector<float>{1, 2, 3, 4, 5, -INFINITY}));
       }),
       "left.vectors[1][2] is -Infinity, must be finite"},
      {"FirstWrongElementDecides", Changed([](auto& t) {
         t.set_data(RawBytes(std::vector<float>{1, 2, 3, 4, INFINITY, NAN}));
       }),
       "left.vectors[1][1] is Infinity, must be finite"},
      {"DoubleBeyondFloats", Changed([](auto& t) {
         t.set_dtype(v1::DTYPE_F64);
         t.set_data(RawBytes(std::vector<double>{1, 2, 3, -1e300, 5, NAN}));
       }),
       "left.vectors[1][0] is -1e+300, must be within +-3.40282347e+38"},
      {"DoubleNaN", Changed([](auto& t) {
         t.set_dtype(v1::DTYPE_F64);
         t.set_data(RawBytes(std::vector<double>{1, 2, NAN, 4, 5, 6}));
       }),
       "left.vectors[0][2] is NaN, must be finite"},
      {"HalfInfinity", Changed([](auto& t) {
         t.set_dtype(v1::DTYPE_F16);
         t.set_data(RawBytes(std::vector<uint16_t>{0, 0, 0, 0, 0x7C00, 0}));
       }),
       "left.vectors[1][1] is Infinity, must be finite"},
      {"BrainFloatNaN", Changed([](auto& t) {
         t.set_dtype(v1::DTYPE_BF16);
         t.set_data(RawBytes(std::vector<uint16_t>{0x7F81, 0, 0, 0, 0, 0}));
       }),
       "left.vectors[0][0] is NaN, must be finite"},
      {"ValuesNaN", Changed([](auto& t) {
         t.clear_data();
         for (const float value : {1.f, 2.f, 3.f, 4.f, 5.f, NAN}) t.add_values(value);
       }),
       "left.vectors[1][2] is NaN, must be finite"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, OperandTest, ::testing::ValuesIn(WrongTensors()),
                         [](const auto& test) { return test.param.name; });

TEST(OperandFiniteTest, EveryNotFiniteBitPatternIsFoundInEveryColumn) {
  // Quiet and signalling NaN, NaNs with payload and sign, both infinities.
  const std::vector<uint32_t> patterns = {0x7FC00000, 0x7F800001, 0x7FABCDEF, 0xFFC12345, 0x7F800000, 0xFF800000};
  constexpr int64_t kDim = 67;
  const auto table = CountingTable("wide", 2, kDim);
  for (const uint32_t pattern : patterns) {
    for (size_t column = 0; column < kDim; ++column) {
      std::vector<float> floats(3 * kDim, 1);
      std::memcpy(&floats[2 * kDim + column], &pattern, sizeof pattern);
      v1::VectorSet set;
      SetVectors(set.mutable_vectors(), kDim, floats);
      Operand operand;
      ASSERT_TRUE(operand.Check(set, true, RequestLimits(), "targets.").ok());
      const std::string message(operand.Resolve(*table).message());
      const std::string want = "targets.vectors[2][" + std::to_string(column) + "] is ";
      ASSERT_EQ(message.substr(0, want.size()), want) << std::hex << pattern;
    }
  }
}

TEST(OperandFiniteTest, ExtremeFiniteValuesAreFine) {
  v1::Tensor tensor = GoodTensor();
  tensor.set_data(RawBytes(std::vector<float>{FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, -0.f, 1e-30f, 1e30f}));
  EXPECT_EQ(CheckAndResolve(tensor), absl::OkStatus());
  tensor.set_dtype(v1::DTYPE_F64);
  tensor.set_data(RawBytes(std::vector<double>{FLT_MAX, -FLT_MAX, DBL_TRUE_MIN, -0., 1e-300, 1e30}));
  EXPECT_EQ(CheckAndResolve(tensor), absl::OkStatus());
}

TEST(OperandEmptyTest, NoVectorsNeedNoDtype) {
  v1::Tensor tensor;
  tensor.add_shape(0);
  tensor.add_shape(3);
  EXPECT_EQ(CheckAndResolve(tensor), absl::OkStatus());
  tensor.set_dtype(v1::DTYPE_F64);
  EXPECT_EQ(CheckAndResolve(tensor), absl::OkStatus());
}

}  // namespace
}  // namespace embedding::testing
