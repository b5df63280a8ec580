// Names of files from strangers, confined to one folder.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace embedding {

// Longest name in bytes.
inline constexpr size_t kMaxFileNameBytes = 4096;

// INVALID_ARGUMENT, which does not tell where the folder is, unless the name is one of a file or folder within it: not
// empty, not "." alone, at most 4,096 bytes, no leading "/", no part "..", no NUL or control character.
absl::Status CheckFileName(absl::string_view name);

// The real path, without links, of a name that passed CheckFileName. INVALID_ARGUMENT if a link in it leads out of the
// root or to nothing, which is the same error, so that nobody learns what there is outside; DATA_LOSS with the name and
// the errno text if there is no such file within.
absl::StatusOr<std::string> ResolveBeneath(const std::string& root, absl::string_view name);

// The real path, without links, of a folder; "" if it is not there.
std::string RealFolder(const std::string& folder);

// The path, which begins with the root's as given or without links, without links; or as it is if nothing is there.
// INVALID_ARGUMENT as ResolveBeneath. name: how the message calls it.
absl::StatusOr<std::string> RealPathBeneath(const std::string& root, const std::string& path, absl::string_view name);

// The same, for what is not opened by its path afterwards.
absl::Status CheckBeneath(const std::string& root, const std::string& path, absl::string_view name);

}  // namespace embedding
