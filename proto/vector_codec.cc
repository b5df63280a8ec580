#include "proto/vector_codec.h"

#include <bit>
#include <cstring>

namespace embedding {

// The wire is little-endian; on such a machine its bytes are the floats' own.
static_assert(std::endian::native == std::endian::little, "big-endian machines are not supported");

size_t WireDtypeSize(v1::Dtype dtype) {
  switch (dtype) {
    case v1::DTYPE_I8:
    case v1::DTYPE_U8:
    case v1::DTYPE_F8_E4M3:
    case v1::DTYPE_F8_E5M2:
      return 1;
    case v1::DTYPE_F16:
    case v1::DTYPE_BF16:
      return 2;
    case v1::DTYPE_F32:
    case v1::DTYPE_I32:
      return 4;
    case v1::DTYPE_F64:
    case v1::DTYPE_I64:
      return 8;
    default:
      return 0;
  }
}

void FloatsToBytes(const float* floats, size_t count, void* bytes) {
  if (count != 0) std::memcpy(bytes, floats, count * sizeof(float));
}

void BytesToFloats(const void* bytes, size_t count, float* floats) {
  if (count != 0) std::memcpy(floats, bytes, count * sizeof(float));
}

}  // namespace embedding
