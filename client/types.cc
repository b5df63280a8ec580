#include "client/types.h"

#include <bit>

#include "proto/vector_codec.h"

namespace embedding::client {
namespace {

uint32_t Word(const std::string& data, size_t offset) {
  return static_cast<unsigned char>(data[offset]) | uint32_t{static_cast<unsigned char>(data[offset + 1])} << 8;
}

// IEEE 754 binary16. Every value of it is a binary32, so nothing is rounded.
float FromHalf(uint32_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// OCP E4M3: 4 exponent bits of bias 7, 3 fraction bits, no infinity, NaN where all of them are 1.
float FromE4M3(uint32_t bits) {
  const uint32_t sign = (bits & 0x80u) << 24;
  const uint32_t exponent = (bits >> 3) & 0xfu;
  const uint32_t fraction = bits & 7u;
  if ((bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-9
    const float magnitude = static_cast<float>(fraction) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (fraction << 20));
}

float FromByte(Dtype dtype, unsigned char bits) {
  switch (dtype) {
    case Dtype::kI8:
      return static_cast<float>(static_cast<int8_t>(bits));
    case Dtype::kF8E4M3:
      return FromE4M3(bits);
    case Dtype::kF8E5M2:  // the upper half of a binary16
      return FromHalf(uint32_t{bits} << 8);
    default:
      return static_cast<float>(bits);
  }
}

}  // namespace

const char* DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "F32";
    case Dtype::kF16:
      return "F16";
    case Dtype::kBF16:
      return "BF16";
    case Dtype::kF64:
      return "F64";
    case Dtype::kI8:
      return "I8";
    case Dtype::kU8:
      return "U8";
    case Dtype::kF8E4M3:
      return "F8_E4M3";
    case Dtype::kF8E5M2:
      return "F8_E5M2";
    case Dtype::kUnspecified:
      break;
  }
  return "unspecified";
}

const char* TableStateName(TableState state) {
  switch (state) {
    case TableState::kLoading:
      return "loading";
    case TableState::kAvailable:
      return "available";
    case TableState::kDraining:
      return "draining";
    case TableState::kFailed:
      return "failed";
    default:
      return "unspecified";
  }
}

const char* MetricName(Metric metric) {
  switch (metric) {
    case Metric::kCosine:
      return "cosine";
    case Metric::kDot:
      return "dot";
    case Metric::kEuclidean:
      return "euclidean";
    case Metric::kTableDefault:
      break;
  }
  return "table default";
}

size_t DtypeSize(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return 4;
    case Dtype::kF16:
    case Dtype::kBF16:
      return 2;
    case Dtype::kF64:
      return 8;
    case Dtype::kI8:
    case Dtype::kU8:
    case Dtype::kF8E4M3:
    case Dtype::kF8E5M2:
      return 1;
    case Dtype::kUnspecified:
      break;
  }
  return 0;
}

std::vector<float> Tensor::ToFloats() const {
  std::vector<float> floats;
  if (dtype == Dtype::kUnspecified || dtype == Dtype::kF64) return floats;
  const size_t size = DtypeSize(dtype);
  if (dtype == Dtype::kF32) {
    floats.resize(data.size() / size);
    BytesToFloats(data.data(), floats.size(), floats.data());
    return floats;
  }
  floats.reserve(data.size() / size);
  if (size == 1) {
    for (const char byte : data) floats.push_back(FromByte(dtype, static_cast<unsigned char>(byte)));
    return floats;
  }
  for (size_t offset = 0; offset + size <= data.size(); offset += size) {
    const uint32_t bits = Word(data, offset);
    floats.push_back(dtype == Dtype::kF16 ? FromHalf(bits) : std::bit_cast<float>(bits << 16));
  }
  return floats;
}

}  // namespace embedding::client
