// Element types that files hold, by the names that safetensors gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "server/kernels/kernels.h"

namespace embedding {

// Element types that a table may have in its file. In memory a table is F32, F16 or BF16: F64 is narrowed while
// loading.
enum class Dtype : uint8_t { kF32, kF16, kBF16, kF64 };

// "F32", "F16", "BF16", "F64".
absl::string_view DtypeName(Dtype dtype);

// The dtype of a name, exactly as above; nullopt for any other.
std::optional<Dtype> DtypeFromName(absl::string_view name);

ElementType ElementTypeOf(Dtype dtype);

// Bytes of one element.
size_t DtypeSize(Dtype dtype);

}  // namespace embedding
