// Which build this is.
#pragma once

#include "server/service/metrics.h"

namespace embedding {

// version: the project's; revision: git's commit when it was built, "unknown" without git; compiler: name and version;
// simd: the target that this machine runs.
BuildInfo ThisBuild();

}  // namespace embedding
