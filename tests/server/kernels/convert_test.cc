#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "server/kernels/canonical.h"
#include "server/kernels/kernels.h"
#include "tests/testing/byte_codes.h"
#include "tests/testing/reference.h"
#include "tests/testing/simd_targets.h"

namespace embedding {
namespace {

using testing::IsCode;
using testing::kByteCodes;
using testing::ReferenceFrom16;
using testing::ScopedSimdTarget;
using testing::SimdTargets;

class ConvertTest : public ::testing::TestWithParam<int64_t> {};

std::vector<uint16_t> All16Bits() {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

int MantissaBits(ElementType type) { return type == ElementType::kF16 ? 10 : 7; }

TEST_P(ConvertTest, WidensEvery16BitPatternExactly) {
  const ScopedSimdTarget scoped(GetParam());
  const std::vector<uint16_t> from = All16Bits();
  for (ElementType type : {ElementType::kF16, ElementType::kBF16}) {
    std::vector<float> to(from.size());
    WidenToF32(type, from.data(), from.size(), to.data());
    for (size_t i = 0; i < from.size(); ++i) {
      const double want = ReferenceFrom16(from[i], MantissaBits(type));
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(to[i])) << i;
        // The payload moves up with the mantissa; a quiet bit may be added.
        const uint32_t payload = (from[i] & ((1u << MantissaBits(type)) - 1)) << (23 - MantissaBits(type));
        ASSERT_EQ(std::bit_cast<uint32_t>(to[i]) & 0x3fffff, payload & 0x3fffff) << i;
        ASSERT_EQ(std::signbit(to[i]), (from[i] >> 15) != 0) << i;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(to[i]), std::bit_cast<uint32_t>(static_cast<float>(want))) << i;
      }
    }
  }
}

// The types of kByteCodes, in its order.
constexpr ElementType kByteTypes[] = {ElementType::kI8, ElementType::kU8, ElementType::kF8E4M3, ElementType::kF8E5M2};

TEST_P(ConvertTest, WidensEvery8BitCodeAsNumpyAndMlDtypesDo) {
  const ScopedSimdTarget scoped(GetParam());
  std::vector<uint8_t> from(256 + 3);
  for (size_t type = 0; type < std::size(kByteTypes); ++type) {
    for (size_t shift : {0u, 1u, 3u}) {
      for (size_t code = 0; code < 256; ++code) from[code + shift] = static_cast<uint8_t>(code);
      std::vector<float> floats(256);
      std::vector<double> doubles(256);
      WidenToF32(kByteTypes[type], from.data() + shift, 256, floats.data());
      WidenToF64(kByteTypes[type], from.data() + shift, 256, doubles.data());
      for (size_t code = 0; code < 256; ++code) {
        const auto byte = static_cast<uint8_t>(code);
        ASSERT_TRUE(IsCode(floats[code], kByteCodes[type], code)) << kByteCodes[type].dtype << " " << code;
        ASSERT_TRUE(IsCode(doubles[code], kByteCodes[type], code)) << kByteCodes[type].dtype << " " << code;
        ASSERT_TRUE(IsCode(testing::ReferenceElement(kByteTypes[type], &byte, 0), kByteCodes[type], code)) << code;
      }
    }
  }
}

TEST_P(ConvertTest, WidensBytesOfAnyCountAndTouchesNothingBehindThem) {
  const ScopedSimdTarget scoped(GetParam());
  for (size_t type = 0; type < std::size(kByteTypes); ++type) {
    for (size_t count = 0; count <= 70; ++count) {
      std::vector<uint8_t> from(count);
      for (size_t i = 0; i < count; ++i) from[i] = static_cast<uint8_t>(i * 37);
      std::vector<float> to(count + 1, -7.0f);
      WidenToF32(kByteTypes[type], from.data(), count, to.data());
      for (size_t i = 0; i < count; ++i) ASSERT_TRUE(IsCode(to[i], kByteCodes[type], from[i])) << i;
      ASSERT_EQ(to[count], -7.0f);
    }
  }
}

// Nearest even by exhaustive knowledge of the format: of the two neighbours of a value, the nearer, or the one with an
// even pattern.
uint16_t ReferenceNarrow(float value, int mantissa_bits) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(double{value});
  const auto infinity = static_cast<uint16_t>(((1 << (15 - mantissa_bits)) - 1) << mantissa_bits);
  uint16_t low = 0;
  uint16_t high = infinity;  // patterns grow with the values they stand for
  // What would follow the largest finite number, were the exponent not reserved: from half way to it on, infinity.
  const double largest = ReferenceFrom16(static_cast<uint16_t>(infinity - 1), mantissa_bits);
  const double step = largest - ReferenceFrom16(static_cast<uint16_t>(infinity - 2), mantissa_bits);
  if (magnitude >= largest + step / 2) return static_cast<uint16_t>(sign | infinity);
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (ReferenceFrom16(middle, mantissa_bits) <= magnitude ? low : high) = middle;
  }
  if (high == infinity) return static_cast<uint16_t>(sign | low);
  const double below = magnitude - ReferenceFrom16(low, mantissa_bits);
  const double above = ReferenceFrom16(high, mantissa_bits) - magnitude;
  const uint16_t nearest = below < above ? low : above < below ? high : low % 2 == 0 ? low : high;
  return static_cast<uint16_t>(sign | nearest);
}

TEST_P(ConvertTest, NarrowsToNearestEven) {
  const ScopedSimdTarget scoped(GetParam());
  for (ElementType type : {ElementType::kF16, ElementType::kBF16}) {
    // Each representable value, the midpoints to its neighbours, and one unit of float32 to either side of those.
    std::vector<float> from;
    for (uint32_t bits = 0; bits < 0x8000; bits += type == ElementType::kF16 ? 1 : 3) {
      const double value = ReferenceFrom16(static_cast<uint16_t>(bits), MantissaBits(type));
      const double next = ReferenceFrom16(static_cast<uint16_t>(bits + 1), MantissaBits(type));
      if (!std::isfinite(value) || !std::isfinite(next)) continue;
      const auto middle = static_cast<float>((value + next) / 2);
      for (float x :
           {static_cast<float>(value), middle, std::nextafter(middle, 0.0f), std::nextafter(middle, FLT_MAX)}) {
        from.push_back(bits % 2 == 0 ? x : -x);
      }
    }
    for (float x : {65519.996f, 65520.0f, 65504.0f, FLT_MAX, 1e-45f, -0.0f, 3.3895314e38f}) from.push_back(x);
    std::vector<uint16_t> to(from.size());
    NarrowFromF32(from.data(), from.size(), type, to.data());
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(to[i], ReferenceNarrow(from[i], MantissaBits(type))) << from[i];
    }
  }
}

TEST_P(ConvertTest, NarrowedInfinityAndNanStay) {
  const ScopedSimdTarget scoped(GetParam());
  const std::vector<float> from = {INFINITY, -INFINITY, NAN, std::bit_cast<float>(0x7f800001u),
                                   std::bit_cast<float>(0xffc00000u)};
  for (ElementType type : {ElementType::kF16, ElementType::kBF16}) {
    std::vector<uint16_t> to(from.size());
    EXPECT_EQ(NarrowFromF32(from.data(), from.size(), type, to.data()), from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      const double back = ReferenceFrom16(to[i], MantissaBits(type));
      EXPECT_EQ(std::isnan(back), std::isnan(from[i])) << i;
      if (!std::isnan(back)) {
        EXPECT_EQ(back, double{from[i]}) << i;
      }
    }
  }
}

TEST_P(ConvertTest, ReportsFirstOverflow) {
  const ScopedSimdTarget scoped(GetParam());
  for (size_t at : {0u, 1u, 7u, 15u, 16u, 17u, 30u}) {
    std::vector<float> from(31, 1.0f);
    from[0] = INFINITY;  // was infinite before: no overflow
    from[at] = FLT_MAX;
    from[30] = FLT_MAX;
    std::vector<uint16_t> to(from.size());
    EXPECT_EQ(NarrowFromF32(from.data(), from.size(), ElementType::kF16, to.data()), at);
    EXPECT_EQ(NarrowFromF32(from.data(), from.size(), ElementType::kBF16, to.data()), at);
    std::vector<float> same(from.size());
    EXPECT_EQ(NarrowFromF32(from.data(), from.size(), ElementType::kF32, same.data()), from.size());
    EXPECT_EQ(same, from);

    std::vector<double> wide(31, 1.0);
    wide[0] = INFINITY;
    wide[at] = 1e300;
    wide[30] = -1e39;
    std::vector<float> narrow(wide.size());
    EXPECT_EQ(NarrowF64ToF32(wide.data(), wide.size(), narrow.data()), at);
  }
}

TEST_P(ConvertTest, NarrowsDoublesAsTheLanguageDoes) {
  const ScopedSimdTarget scoped(GetParam());
  const std::vector<double> from = {0.1,         -0.1,          1e-45, 1e-46, 7e-46,   3.4028235677973366e38,
                                    1 + 0x1p-24, 1 + 0x1.8p-23, -0.0,  NAN,   INFINITY};
  std::vector<float> to(from.size());
  // The largest double that rounds to FLT_MAX's upper half way point becomes infinite: index 5.
  EXPECT_EQ(NarrowF64ToF32(from.data(), from.size(), to.data()), 5u);
  std::vector<float> widened(from.size());
  WidenToF32(ElementType::kF64, from.data(), from.size(), widened.data());
  for (size_t i = 0; i < from.size(); ++i) {
    const auto want = static_cast<float>(from[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(to[i]) && std::isnan(widened[i]));
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(to[i]), std::bit_cast<uint32_t>(want)) << i;
    EXPECT_EQ(std::bit_cast<uint32_t>(widened[i]), std::bit_cast<uint32_t>(want)) << i;
  }
}

TEST_P(ConvertTest, TouchesNothingOutsideAtAnyLengthAndAlignment) {
  const ScopedSimdTarget scoped(GetParam());
  for (size_t count = 0; count <= 40; ++count) {
    for (size_t shift : {0u, 1u, 3u}) {
      std::vector<uint8_t> from(count * 2 + shift);
      for (size_t i = 0; i < count; ++i) {
        const auto bits = static_cast<uint16_t>(0x3c00 + i);
        std::memcpy(&from[shift + 2 * i], &bits, 2);
      }
      std::vector<float> to(count + 1, -7.0f);
      WidenToF32(ElementType::kF16, from.data() + shift, count, to.data());
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(to[i], 1.0f + static_cast<float>(i) * 0x1p-10f);
      ASSERT_EQ(to[count], -7.0f);
      std::vector<uint8_t> back(count * 2 + shift + 1, 0xab);
      NarrowFromF32(to.data(), count, ElementType::kF16, back.data() + shift);
      for (size_t i = shift; i < shift + 2 * count; ++i) ASSERT_EQ(back[i], from[i]);
      ASSERT_EQ(back.back(), 0xab);
    }
  }
}

// rows: [6, dim] of type, so many of them zeros; non_finite: 1 for each that holds NaN or infinity.
void ExpectScan(ElementType type, const std::vector<uint8_t>& rows, size_t dim, int64_t zero_rows,
                std::vector<uint8_t> non_finite) {
  const auto count = std::accumulate(non_finite.begin(), non_finite.end(), int64_t{0});
  non_finite.push_back(9);  // is not touched
  std::vector<uint8_t> found(non_finite.size(), 9);
  const RowScan scan = ScanRows(type, rows.data(), 6, dim, found.data());
  EXPECT_EQ(scan.zero_rows, zero_rows);
  EXPECT_EQ(scan.non_finite_rows, count);
  EXPECT_EQ(found, non_finite);
  EXPECT_EQ(ScanRows(type, rows.data(), 6, dim, nullptr).non_finite_rows, count);
}

TEST_P(ConvertTest, ScanFindsZeroAndNonFiniteRows) {
  const ScopedSimdTarget scoped(GetParam());
  for (size_t dim : {1u, 3u, 8u, 16u, 17u, 33u, 100u}) {
    // Rows: ordinary, +0 and -0, NaN in the last element, infinity in the first, the largest finite number, ordinary.
    std::vector<float> rows(6 * dim, 0.5f);
    for (size_t j = 0; j < dim; ++j) {
      rows[dim + j] = j % 2 == 0 ? 0.0f : -0.0f;
      rows[4 * dim + j] = -3.3895314e38f;  // the largest bfloat16
    }
    rows[2 * dim + dim - 1] = -NAN;
    rows[3 * dim] = -INFINITY;
    for (ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16, ElementType::kF64}) {
      std::vector<uint8_t> bytes(rows.size() * 8);
      if (type == ElementType::kF64) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const double wide = rows[i];
          std::memcpy(&bytes[8 * i], &wide, 8);
        }
      } else {
        std::vector<float> fitting = rows;
        if (type == ElementType::kF16) {
          for (size_t j = 0; j < dim; ++j) fitting[4 * dim + j] = -65504.0f;
        }
        NarrowFromF32(fitting.data(), fitting.size(), type, bytes.data());
      }
      ExpectScan(type, bytes, dim, 1, {0, 0, 1, 1, 0, 0});
    }
  }
}

// Where all rows are finite, their first elements tell most of them apart from zeros.
TEST_P(ConvertTest, ScanFindsZeroRowsAmongFiniteOnes) {
  const ScopedSimdTarget scoped(GetParam());
  for (size_t dim : {2u, 3u, 17u, 64u, 65u, 300u}) {
    // Rows: ordinary, +0, zeros but for the last element, -0 and +0, +0 but for the last element, the least float16.
    std::vector<float> rows(6 * dim, 0.5f);
    for (size_t j = 0; j < dim; ++j) {
      rows[dim + j] = 0.0f;
      rows[2 * dim + j] = -0.0f;
      rows[3 * dim + j] = j == 0 ? -0.0f : 0.0f;
      rows[4 * dim + j] = 0.0f;
      rows[5 * dim + j] = 0x1p-24f;
    }
    rows[3 * dim - 1] = -1.0f;
    rows[5 * dim - 1] = 2.0f;
    for (ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
      std::vector<uint8_t> bytes(rows.size() * 4);
      NarrowFromF32(rows.data(), rows.size(), type, bytes.data());
      ExpectScan(type, bytes, dim, 2, {0, 0, 0, 0, 0, 0});
    }
  }
}

// One row for each code, everywhere in a row of ones.
TEST_P(ConvertTest, ScanJudgesEvery8BitCode) {
  const ScopedSimdTarget scoped(GetParam());
  for (size_t type = 0; type < std::size(kByteTypes); ++type) {
    for (size_t dim : {1u, 2u, 15u, 16u, 17u, 64u, 65u, 200u}) {
      for (const uint8_t rest : {uint8_t{0}, uint8_t{0x38}}) {
        std::vector<uint8_t> rows(256 * dim, rest);
        for (size_t code = 0; code < 256; ++code) rows[code * dim + code % dim] = static_cast<uint8_t>(code);
        std::vector<uint8_t> non_finite(256, 9);
        const RowScan scan = ScanRows(kByteTypes[type], rows.data(), 256, dim, non_finite.data());
        int64_t zeros = 0;
        int64_t bad = 0;
        for (size_t code = 0; code < 256; ++code) {
          const auto value = std::bit_cast<float>(kByteCodes[type].bits[code]);
          if (value == 0 && (rest == 0 || dim == 1)) ++zeros;
          if (!std::isfinite(value)) ++bad;
          ASSERT_EQ(non_finite[code], std::isfinite(value) ? 0 : 1) << kByteCodes[type].dtype << " " << code;
        }
        EXPECT_EQ(scan.zero_rows, zeros) << kByteCodes[type].dtype << " " << dim;
        EXPECT_EQ(scan.non_finite_rows, bad) << kByteCodes[type].dtype << " " << dim;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvertTest, ::testing::ValuesIn(SimdTargets()),
                         [](const auto& test) { return std::string(hwy::TargetName(test.param)); });

TEST(SimdTargetNameTest, NamesTheTargetInUse) {
  for (int64_t target : SimdTargets()) {
    const ScopedSimdTarget scoped(target);
    EXPECT_STREQ(SimdTargetName(), hwy::TargetName(target));
  }
  EXPECT_STREQ(SimdTargetName(), hwy::TargetName(SimdTargets().front()));
}

}  // namespace
}  // namespace embedding
