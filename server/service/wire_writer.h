// Protobuf's encoding, written by hand: sizes and bytes of tags, varints and lengths.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace embedding {

// Bytes of a varint, 1 to 10.
constexpr uint64_t VarintSize(uint64_t value) {
  // ceil(bits / 7) of 1 to 64 bits, without a division.
  return static_cast<uint64_t>((std::bit_width(value | 1) * 9 + 64) / 64);
}

// Field numbers here are below 16: a tag is one byte.
inline constexpr uint64_t kTagSize = 1;

// A varint field: left out if it is 0.
constexpr uint64_t VarintFieldSize(uint64_t value) { return value == 0 ? 0 : kTagSize + VarintSize(value); }
// A field of `size` bytes after its length, written even if it is empty.
constexpr uint64_t BytesFieldSize(uint64_t size) { return kTagSize + VarintSize(size) + size; }
// The same for a string or bytes or packed field, which is left out if it is empty.
constexpr uint64_t OptionalBytesFieldSize(uint64_t size) { return size == 0 ? 0 : BytesFieldSize(size); }

// Writes into memory whose size was computed before. All return the byte behind what they wrote.
inline uint8_t* PutVarint(uint64_t value, uint8_t* to) {
  while (value >= 0x80) {
    *to++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<uint8_t>(value);
  return to;
}

inline uint8_t* PutVarintField(uint32_t number, uint64_t value, uint8_t* to) {
  if (value == 0) return to;
  *to++ = static_cast<uint8_t>(number << 3);
  return PutVarint(value, to);
}

// Tag and length of a field of `size` bytes.
inline uint8_t* PutBytesHeader(uint32_t number, uint64_t size, uint8_t* to) {
  *to++ = static_cast<uint8_t>(number << 3 | 2);
  return PutVarint(size, to);
}

inline uint8_t* PutRaw(const void* from, uint64_t size, uint8_t* to) {
  if (size != 0) std::memcpy(to, from, size);
  return to + size;
}

// Left out if it is empty.
inline uint8_t* PutOptionalBytesField(uint32_t number, absl::string_view bytes, uint8_t* to) {
  if (bytes.empty()) return to;
  return PutRaw(bytes.data(), bytes.size(), PutBytesHeader(number, bytes.size(), to));
}

}  // namespace embedding
