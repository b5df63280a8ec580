// Every SIMD target that was compiled in and that this machine runs. Needs HWY_WANT_AVX3_DL, as the kernels do.
#pragma once

#include <cstdint>
#include <vector>

#include "hwy/targets.h"

namespace embedding::testing {

// Best target first.
inline std::vector<int64_t> SimdTargets() {
  hwy::SetSupportedTargetsForTest(0);
  return hwy::SupportedAndGeneratedTargets();
}

// Makes the kernels use one target for its own lifetime. Not while kernels run on other threads.
class ScopedSimdTarget {
 public:
  explicit ScopedSimdTarget(int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~ScopedSimdTarget() { hwy::SetSupportedTargetsForTest(0); }
  ScopedSimdTarget(const ScopedSimdTarget&) = delete;
  ScopedSimdTarget& operator=(const ScopedSimdTarget&) = delete;
};

}  // namespace embedding::testing
