// Element types that files hold, by the names that safetensors gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "server/kernels/kernels.h"

namespace embedding {

// Element types that a table may have in its file, and in memory as well, but for F64, which is narrowed to F32 while
// loading. What the 8-bit floats are: kernels.h.
enum class Dtype : uint8_t { kF32, kF16, kBF16, kF64, kI8, kU8, kF8E4M3, kF8E5M2 };

// All names, for messages.
inline constexpr absl::string_view kDtypeNames = "F32, F16, BF16, F64, I8, U8, F8_E4M3, F8_E5M2";

// "F32", "F16", "BF16", "F64", "I8", "U8", "F8_E4M3", "F8_E5M2".
absl::string_view DtypeName(Dtype dtype);

// The dtype of a name, exactly as above; nullopt for any other.
std::optional<Dtype> DtypeFromName(absl::string_view name);

ElementType ElementTypeOf(Dtype dtype);

// Bytes of one element.
size_t DtypeSize(Dtype dtype);

}  // namespace embedding
