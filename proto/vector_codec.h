// Names and sizes of the wire's element types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/v1/embedding.pb.h"

namespace embedding {

// Bytes of one element; 0 for DTYPE_UNSPECIFIED and unknown numbers.
size_t WireDtypeSize(v1::Dtype dtype);

// Appends/reads float rows as little-endian bytes. bytes: 4 * count.
void FloatsToBytes(const float* floats, size_t count, void* bytes);
void BytesToFloats(const void* bytes, size_t count, float* floats);

}  // namespace embedding
