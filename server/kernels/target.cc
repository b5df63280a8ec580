#include "hwy/targets.h"
#include "server/kernels/kernels.h"

namespace embedding {

const char* SimdTargetName() {
  // Lower bits are better targets.
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);
}

}  // namespace embedding
