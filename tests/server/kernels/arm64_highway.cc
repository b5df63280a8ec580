// What a cross build for ARM64 needs of Highway's library, which Debian has for the machine at hand alone: one target,
// NEON, which every such processor runs. Compiled by scripts/cross_arm64 and by nothing else.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "hwy/base.h"
#include "hwy/targets.h"

namespace hwy {

int64_t SupportedTargets() { return HWY_NEON; }
void SetSupportedTargetsForTest(int64_t) {}
void DisableTargets(int64_t) {}
ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

[[noreturn]] void Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::abort();
}

}  // namespace hwy
