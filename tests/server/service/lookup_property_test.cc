// Random Lookups against a short reference: plain loops over the table's bytes and the formats' definitions.
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "tests/server/service/service_testing.h"
#include "tests/testing/narrow_reference.h"
#include "tests/testing/reference.h"

namespace embedding::testing {
namespace {

int MantissaBits(v1::Dtype dtype) { return dtype == v1::DTYPE_F16 ? 10 : 7; }

// The element's bytes in output, or nullopt if it does not fit. NaN elements are compared by the caller.
std::optional<std::string> ReferenceBytes(Dtype stored, const std::byte* element, v1::Dtype output) {
  const double value = ReferenceElement(ElementTypeOf(stored), element, 0);
  if (output == v1::DTYPE_F32) return RawBytes(std::vector<float>{static_cast<float>(value)});
  const std::optional<uint16_t> bits = NearestOf16(value, MantissaBits(output));
  if (!bits) return std::nullopt;
  return RawBytes(std::vector<uint16_t>{*bits});
}

struct Trial {
  v1::LookupRequest request;
  std::vector<int64_t> ids;
  std::vector<int64_t> shape;  // of the ids
};

class LookupPropertyTest : public ::testing::TestWithParam<Dtype> {
 protected:
  static constexpr int64_t kRows = 37;
  static constexpr int64_t kDim = 19;

  // Random bits: every exponent, subnormals and infinities; NaNs are made finite, as their payload has no reference.
  std::vector<std::byte> RandomRows() {
    const size_t size = DtypeSize(GetParam());
    std::vector<std::byte> bytes(kRows * kDim * size);
    for (size_t i = 0; i < bytes.size() / size; ++i) {
      uint32_t bits = static_cast<uint32_t>(random_());
      // Half of the values of moderate size, so that many rows fit every dtype.
      if (i / kDim % 4 != 0) {
        const float moderate = std::ldexp(static_cast<float>(static_cast<int32_t>(bits)), -26);
        std::memcpy(&bits, &moderate, sizeof bits);
        if (GetParam() == Dtype::kF16) bits = NearestOf16(moderate, 10).value();
        if (GetParam() == Dtype::kBF16) bits = NearestOf16(moderate, 7).value();
      }
      std::memcpy(bytes.data() + i * size, &bits, size);
      if (std::isnan(ReferenceElement(ElementTypeOf(GetParam()), bytes.data() + i * size, 0))) {
        std::memset(bytes.data() + i * size, 0x11, size);
      }
    }
    return bytes;
  }

  Trial RandomTrial() {
    Trial trial;
    const uint64_t rank = random_() % 4;
    int64_t count = 1;
    for (uint64_t i = 0; i < rank; ++i) {
      trial.shape.push_back(static_cast<int64_t>(random_() % 5));
      count *= trial.shape.back();
    }
    if (rank == 0) {
      count = static_cast<int64_t>(random_() % 12);
      trial.shape = {count};
    }
    // Wide rows of random bits seldom fit a narrower dtype: most trials use the moderate rows only.
    const bool moderate = random_() % 4 != 0;
    for (int64_t i = 0; i < count; ++i) {
      int64_t id = static_cast<int64_t>(random_() % kRows);
      if (moderate && id % 4 == 0) ++id;
      trial.ids.push_back(std::min(id, kRows - 2));
    }
    const auto set_shape = [&](auto* list) {
      if (rank != 0) list->mutable_shape()->Assign(trial.shape.begin(), trial.shape.end());
    };
    v1::RowSelector* rows = trial.request.mutable_rows();
    switch (random_() % 4) {
      case 0:
        rows->mutable_ids()->mutable_values()->Assign(trial.ids.begin(), trial.ids.end());
        set_shape(rows->mutable_ids());
        break;
      case 1:
        rows->mutable_keys();
        for (const int64_t id : trial.ids) rows->mutable_keys()->add_values("key " + std::to_string(id));
        set_shape(rows->mutable_keys());
        break;
      case 2:
        rows->mutable_id_tensor()->set_dtype(v1::DTYPE_I64);
        rows->mutable_id_tensor()->set_data(RawBytes(trial.ids));
        set_shape(rows->mutable_id_tensor());
        break;
      default:
        rows->mutable_id_tensor()->set_dtype(v1::DTYPE_I32);
        rows->mutable_id_tensor()->set_data(RawBytes(std::vector<int32_t>(trial.ids.begin(), trial.ids.end())));
        set_shape(rows->mutable_id_tensor());
    }
    trial.request.set_output_dtype(static_cast<v1::Dtype>(random_() % 4));
    trial.request.set_encoding(static_cast<v1::Encoding>(random_() % 3));
    if (trial.request.encoding() == v1::ENCODING_FLOATS && trial.request.output_dtype() > v1::DTYPE_F32) {
      trial.request.set_output_dtype(v1::DTYPE_UNSPECIFIED);
    }
    return trial;
  }

  std::mt19937_64 random_{20261129};
};

TEST_P(LookupPropertyTest, EqualsTheReference) {
  const std::vector<std::byte> rows = RandomRows();
  std::vector<std::string> keys;
  for (int64_t i = 0; i < kRows; ++i) keys.push_back("key " + std::to_string(i));
  Services services(TablesOf(TableFromMemory("random", GetParam(), kRows, kDim, rows.data(), keys)));
  const size_t size = DtypeSize(GetParam());
  const v1::Dtype stored = GetParam() == Dtype::kF32   ? v1::DTYPE_F32
                           : GetParam() == Dtype::kF16 ? v1::DTYPE_F16
                                                       : v1::DTYPE_BF16;
  int served = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const Trial trial = RandomTrial();
    v1::Dtype output = trial.request.output_dtype();
    if (output == v1::DTYPE_UNSPECIFIED) {
      output = trial.request.encoding() == v1::ENCODING_FLOATS ? v1::DTYPE_F32 : stored;
    }
    std::string want;
    bool fits = true;
    for (const int64_t id : trial.ids) {
      const std::byte* const row = rows.data() + static_cast<size_t>(id * kDim) * size;
      if (output == stored) {
        want.append(reinterpret_cast<const char*>(row), kDim * size);
        continue;
      }
      for (int64_t j = 0; j < kDim && fits; ++j) {
        const std::optional<std::string> element =
            ReferenceBytes(GetParam(), row + static_cast<size_t>(j) * size, output);
        fits = element.has_value();
        want += element.value_or("");
      }
    }
    v1::LookupResponse response;
    const absl::Status status = services.Lookup(trial.request, &response);
    if (!fits) {
      ASSERT_EQ(status.code(), absl::StatusCode::kOutOfRange) << trial.request.ShortDebugString();
      ASSERT_EQ(DetailsOf(status).reason, "VALUE_OUT_OF_RANGE");
      ++refused;
      continue;
    }
    ++served;
    ASSERT_EQ(status, absl::OkStatus()) << trial.request.ShortDebugString();
    const v1::Tensor& tensor = response.embeddings();
    ASSERT_EQ(tensor.dtype(), output);
    std::vector<int64_t> shape = trial.shape;
    shape.push_back(kDim);
    ASSERT_EQ(ShapeOf(tensor), shape);
    if (trial.request.encoding() == v1::ENCODING_FLOATS) {
      ASSERT_TRUE(tensor.data().empty());
      ASSERT_EQ(RawBytes(std::vector<float>(tensor.values().begin(), tensor.values().end())), want);
    } else {
      ASSERT_EQ(tensor.values_size(), 0);
      ASSERT_EQ(tensor.data(), want) << trial.request.ShortDebugString();
    }
  }
  EXPECT_GT(served, 1000);
  // Of F16 no value is beyond BF16's range, and F32 holds both.
  EXPECT_GE(refused, GetParam() == Dtype::kF16 ? 0 : 20);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LookupPropertyTest, ::testing::Values(Dtype::kF32, Dtype::kF16, Dtype::kBF16),
                         [](const auto& test) { return std::string(DtypeName(test.param)); });

}  // namespace
}  // namespace embedding::testing
