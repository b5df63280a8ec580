// Writes small tables as files in the formats that the server reads. Rounding and layout are written out here by their
// definitions and share nothing with the readers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace embedding::testing {

enum class FileDtype { kF32, kF16, kBF16 };

struct BinaryFormat {
  int fraction_bits;
  int bias;
};

// IEEE 754-2019 section 3.6 for binary16; bfloat16 is a binary32 with 7 fraction bits.
constexpr BinaryFormat FormatOf(FileDtype dtype) {
  return dtype == FileDtype::kF16 ? BinaryFormat{10, 15} : BinaryFormat{7, 127};
}

// The 16 bits of the value nearest to x, ties to even. Needs: x finite, its rounded value in range.
inline uint16_t RoundedBits(double x, FileDtype dtype) {
  const auto [fraction_bits, bias] = FormatOf(dtype);
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (x == 0) return sign;
  int exponent = 0;
  std::frexp(std::fabs(x), &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  exponent = std::max(exponent - 1, 1 - bias);
  const double scaled = std::nearbyint(std::ldexp(std::fabs(x), fraction_bits - exponent));
  // scaled holds the leading 1 of a normal number, which adds one to the exponent field; a fraction that rounds up to
  // the next power of two carries into it in the same way, and a subnormal has no leading 1.
  return static_cast<uint16_t>(sign | (((exponent + bias - 1) << fraction_bits) + static_cast<int>(scaled)));
}

// The value that a file of this dtype holds for x.
inline double Rounded(double x, FileDtype dtype) {
  if (dtype == FileDtype::kF32) return static_cast<float>(x);
  const auto [fraction_bits, bias] = FormatOf(dtype);
  if (x == 0) return x;
  int exponent = 0;
  std::frexp(std::fabs(x), &exponent);
  const int unit = std::max(exponent - 1, 1 - bias) - fraction_bits;
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

// Little-endian, row-major, as every format here stores its elements.
inline std::string ElementBytes(std::span<const float> values, FileDtype dtype) {
  std::string bytes;
  for (const float value : values) {
    if (dtype == FileDtype::kF32) {
      char word[4];
      std::memcpy(word, &value, 4);
      bytes.append(word, 4);
    } else {
      const uint16_t bits = RoundedBits(value, dtype);
      bytes.push_back(static_cast<char>(bits & 0xff));
      bytes.push_back(static_cast<char>(bits >> 8));
    }
  }
  return bytes;
}

inline void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

// https://github.com/huggingface/safetensors, section "Format": u64 length, JSON header, data.
inline void WriteSafetensors(const std::string& path, std::span<const float> values, int64_t dim, FileDtype dtype) {
  const std::string data = ElementBytes(values, dtype);
  const char* name = dtype == FileDtype::kF32 ? "F32" : dtype == FileDtype::kF16 ? "F16" : "BF16";
  std::string header = R"({"embedding.weight":{"dtype":")" + std::string(name) + R"(","shape":[)" +
                       std::to_string(static_cast<int64_t>(values.size()) / dim) + "," + std::to_string(dim) +
                       R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  WriteFile(path, LittleEndian(header.size(), 8) + header + data);
}

// NumPy's numpy/lib/format.py, version 1.0.
inline void WriteNpy(const std::string& path, std::span<const float> values, int64_t dim, FileDtype dtype) {
  std::string header = std::string("{'descr': '") + (dtype == FileDtype::kF32 ? "<f4" : "<f2") +
                       "', 'fortran_order': False, 'shape': (" +
                       std::to_string(static_cast<int64_t>(values.size()) / dim) + ", " + std::to_string(dim) + "), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header.push_back('\n');
  WriteFile(path, std::string("\x93NUMPY\x01\x00", 8) + LittleEndian(header.size(), 2) + header +
                      ElementBytes(values, dtype));
}

// big-ann-benchmarks: u32 rows, u32 dim, float32 rows.
inline void WriteFbin(const std::string& path, std::span<const float> values, int64_t dim) {
  WriteFile(path, LittleEndian(values.size() / static_cast<uint64_t>(dim), 4) +
                      LittleEndian(static_cast<uint64_t>(dim), 4) + ElementBytes(values, FileDtype::kF32));
}

}  // namespace embedding::testing
