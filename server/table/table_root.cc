#include "server/table/table_root.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

using absl::string_view;

absl::Status NotWithin(string_view name, string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " must be a file name within the table folder: ", why));
}

// "" with errno.
std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  return real == nullptr ? "" : real.get();
}

bool IsLink(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

bool IsBeneath(const std::string& real_root, const std::string& real_path) {
  return absl::StartsWith(real_path, real_root == "/" ? real_root : real_root + "/");
}

// Part by part, so that the answer is the same whatever there is, or is not, outside of the root. name: as messages
// call it. As ResolveBeneath.
absl::StatusOr<std::string> Follow(const std::string& real_root, string_view parts, string_view name) {
  std::string at = real_root;
  for (const string_view part : absl::StrSplit(parts, '/')) {
    if (part.empty() || part == ".") continue;
    const std::string next = absl::StrCat(at == "/" ? "" : at, "/", part);
    std::string real = RealPath(next);
    const int error = errno;
    if (real.empty() && !IsLink(next))
      return WithPath(name, absl::DataLossError(std::generic_category().message(error)));
    if (!IsBeneath(real_root, real)) return NotWithin(name, "a link in it leads out of the folder, or to nothing");
    at = std::move(real);
  }
  return at;
}

}  // namespace

absl::Status CheckFileName(string_view name) {
  if (name.empty()) return NotWithin(name, "it is empty");
  if (name.size() > kMaxFileNameBytes) {
    return NotWithin(name.substr(0, 64), absl::StrCat("it has ", name.size(), " bytes, at most ", kMaxFileNameBytes));
  }
  if (std::any_of(name.begin(), name.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
      })) {
    return NotWithin(name, "it holds a control character");
  }
  if (name[0] == '/') return NotWithin(name, "it is absolute");
  bool names_something = false;
  for (const string_view part : absl::StrSplit(name, '/')) {
    if (part == "..") return NotWithin(name, "it holds \"..\"");
    names_something = names_something || (!part.empty() && part != ".");
  }
  return names_something ? absl::OkStatus() : NotWithin(name, "it names no file");
}

// Real paths rather than openat2 with RESOLVE_BENEATH: deployments swap absolute links to folders within the root,
// older container sandboxes forbid that call, and who can put a link here in the moment between can put a table here
// too.
absl::StatusOr<std::string> ResolveBeneath(const std::string& root, string_view name) {
  const std::string real_root = RealPath(root);
  if (real_root.empty()) {
    return absl::DataLossError(absl::StrCat("the table folder: ", std::generic_category().message(errno)));
  }
  return Follow(real_root, name, name);
}

std::string RealFolder(const std::string& folder) { return RealPath(folder); }

absl::StatusOr<std::string> RealPathBeneath(const std::string& root, const std::string& path, string_view name) {
  const std::string real_root = RealPath(root);
  // What is not there is told of when it is opened.
  if (real_root.empty()) return path;
  string_view parts = path;
  if (!absl::ConsumePrefix(&parts, absl::StrCat(real_root, "/")) && !absl::ConsumePrefix(&parts, root) &&
      !(root == "./" && !absl::StartsWith(path, "/"))) {
    return NotWithin(name, "it is elsewhere");
  }
  absl::StatusOr<std::string> real = Follow(real_root, parts, name);
  if (absl::IsDataLoss(real.status())) return path;
  return real;
}

absl::Status CheckBeneath(const std::string& root, const std::string& path, string_view name) {
  return RealPathBeneath(root, path, name).status();
}

}  // namespace embedding
