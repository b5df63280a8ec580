#include "server/build_info.h"

#include "absl/strings/str_cat.h"
#include "server/kernels/kernels.h"
#include "server/revision.h"

namespace embedding {
namespace {

std::string CompilerName() {
#if defined(__clang__)
  return absl::StrCat("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#elif defined(__GNUC__)
  return absl::StrCat("gcc ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

}  // namespace

BuildInfo ThisBuild() { return {EMBEDDING_VERSION, EMBEDDING_REVISION, CompilerName(), SimdTargetName()}; }

}  // namespace embedding
