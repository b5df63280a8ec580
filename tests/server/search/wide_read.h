// A plain read of memory, as fast as vector loads go: the yardstick of the search benchmark.
#pragma once

#include <cstddef>
#include <cstdint>

namespace embedding::testing {

// Sum of the 64-bit words of [data, data + size), wrapping; the last size % 8 bytes are not read.
uint64_t SumWords(const void* data, size_t size);

}  // namespace embedding::testing
