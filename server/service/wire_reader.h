// A walk over the fields of one protobuf message, byte by byte, by the rules of protobuf's own C++ parser: what it
// accepts is accepted here, with the same values, and what it refuses is refused.
//
// Source: "Encoding" in the protocol buffers documentation; where that is silent, protobuf 3.21 (varints of more than
// 64 bits lose the upper ones, tags have at most five bytes, groups nest at most 100 deep). lookup_request_fuzzer.cc
// compares.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/strings/string_view.h"

namespace embedding {

// A tag as it stands on the wire: (field number << 3) | wire type.
constexpr uint32_t kVarintType = 0, kFixed64Type = 1, kBytesType = 2, kGroupType = 3, kEndGroupType = 4,
                   kFixed32Type = 5;
constexpr uint32_t VarintTag(uint32_t number) { return number << 3 | kVarintType; }
constexpr uint32_t BytesTag(uint32_t number) { return number << 3 | kBytesType; }
constexpr uint32_t Fixed32Tag(uint32_t number) { return number << 3 | kFixed32Type; }

// Reads from bytes that it borrows. Every Read and Skip returns false, for good, when the bytes are malformed.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  // Bytes that are still to be read.
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }

  // The next field's tag. False for field number 0 and for the end of a group that has not begun.
  bool ReadTag(uint32_t* tag) { return ReadRawTag(tag) && (*tag >> 3) != 0 && (*tag & 7) != kEndGroupType; }

  bool ReadVarint(uint64_t* value) {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) {
      *value = static_cast<uint8_t>(*at_++);
      return true;
    }
    uint64_t result = 0;
    for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(*at_++);
      result |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        *value = result;
        return true;
      }
    }
    return false;
  }

  // A length and as many bytes, borrowed: a string, bytes, a sub-message or packed values.
  bool ReadBytes(absl::string_view* bytes) {
    uint64_t size = 0;
    // The sum of five bytes of seven bits; longer lengths are refused even if they are zeros.
    const char* const start = at_;
    if (!ReadVarint(&size) || at_ - start > 5 || size > kMaxSize || size > remaining()) return false;
    *bytes = absl::string_view(at_, size);
    at_ += size;
    return true;
  }

  // Four bytes, little-endian, as in float fields.
  bool ReadFixed32(uint32_t* value) {
    if (sizeof(*value) > remaining()) return false;
    *value = 0;
    for (int i = 0; i < 4; ++i) *value |= static_cast<uint32_t>(static_cast<uint8_t>(at_[i])) << (8 * i);
    at_ += sizeof(*value);
    return true;
  }

  // Steps over a fixed32 or fixed64 value.
  bool SkipFixed(size_t size) {
    if (size > remaining()) return false;
    at_ += size;
    return true;
  }

  // Steps over the value of a field that is not known, or known with another wire type. depth: how deep groups may
  // nest.
  bool Skip(uint32_t tag, int depth) {
    uint64_t varint = 0;
    absl::string_view bytes;
    switch (tag & 7) {
      case kVarintType:
        return ReadVarint(&varint);
      case kFixed64Type:
        return SkipFixed(8);
      case kBytesType:
        return ReadBytes(&bytes);
      case kGroupType:
        return SkipGroup(tag >> 3, depth - 1);
      case kFixed32Type:
        return SkipFixed(4);
      default:
        return false;
    }
  }

 private:
  // Lengths of up to 2 GiB less the slop that protobuf keeps behind its buffers.
  static constexpr uint64_t kMaxSize = std::numeric_limits<int32_t>::max() - 16;

  bool ReadRawTag(uint32_t* tag) {
    uint64_t value = 0;
    const char* const start = at_;
    if (!ReadVarint(&value) || at_ - start > 5) return false;
    *tag = static_cast<uint32_t>(value);  // bits above 32 are lost, as in protobuf
    return true;
  }

  bool SkipGroup(uint32_t number, int depth) {
    if (depth < 0) return false;
    while (!done()) {
      uint32_t tag = 0;
      if (!ReadRawTag(&tag) || (tag >> 3) == 0) return false;
      if ((tag & 7) == kEndGroupType) return (tag >> 3) == number;
      if (!Skip(tag, depth)) return false;
    }
    return false;
  }

  const char* at_;
  const char* end_;
};

// How a message's own fields answer to the walk.
enum class Field : uint8_t { kKnown, kUnknown, kMalformed };

// Walks over all fields of a message. on_field(tag, reader) reads the value of a known field, or leaves it and says
// kUnknown. depth: how many messages and groups may still nest below this one. False: malformed.
template <typename OnField>
bool WalkFields(absl::string_view message, int depth, OnField on_field) {
  if (depth < 0) return false;
  WireReader reader(message);
  while (!reader.done()) {
    uint32_t tag = 0;
    if (!reader.ReadTag(&tag)) return false;
    const Field field = on_field(tag, reader);
    if (field == Field::kMalformed || (field == Field::kUnknown && !reader.Skip(tag, depth))) return false;
  }
  return true;
}

}  // namespace embedding
