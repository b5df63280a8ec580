// Memory for rows.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"

namespace embedding {

// `size` (>= 1) zeroed bytes of private anonymous memory, aligned to 2 MiB and advised to be huge pages: a scan of 4
// KiB pages spends a good part of its time on address translation. Pages become resident when first written.
// Counted in
// table_memory.h. RESOURCE_EXHAUSTED if that or the system refuses.
absl::StatusOr<std::shared_ptr<std::byte>> AllocatePrivate(size_t size);

}  // namespace embedding
