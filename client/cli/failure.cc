#include "client/cli/failure.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/status_codec.h"

namespace embedding::client {
namespace {

std::string Advice(const absl::Status& status, const std::string& reason, const std::string& address) {
  if (reason == "NO_KEYS") return "; name its rows by --ids";
  if (reason == "LOADING") return "; wait until `embedding-cli health` says SERVING";
  if (!absl::IsUnavailable(status) || !reason.empty()) return "";
  const absl::string_view message = status.message();
  if (absl::StrContains(message, "Connection refused") || absl::StrContains(message, "No such file")) {
    return absl::StrCat(
        "; nothing listens on ", address,
        ": is embedding-server running there? Another address goes into --address or EMBEDDING_ADDRESS");
  }
  return "";
}

}  // namespace

std::string FailureText(const absl::Status& status, const std::string& address) {
  const std::string reason = DetailsOf(status).reason;
  return absl::StrCat(absl::StatusCodeToString(status.code()), reason.empty() ? "" : absl::StrCat(" (", reason, ")"),
                      ": ", status.message(), Advice(status, reason, address));
}

int FailureExitCode(const absl::Status& status) { return 64 + static_cast<int>(status.code()); }

}  // namespace embedding::client
