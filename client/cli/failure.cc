#include "client/cli/failure.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/status_codec.h"

namespace embedding::client {
namespace {

// Why nobody answers at the address, if gRPC's text tells; empty otherwise.
std::string SilenceCause(absl::string_view message) {
  for (const char* cause : {"Connection refused", "No such file or directory", "Permission denied"}) {
    if (absl::StrContains(message, cause)) return cause;
  }
  return "";
}

std::string Advice(const std::string& reason) {
  if (reason == "NO_KEYS") return "; name its rows by --ids";
  if (reason == "LOADING") return "; wait until `embedding-cli health` says SERVING";
  return "";
}

}  // namespace

std::string FailureText(const absl::Status& status, const ClientOptions& options) {
  const std::string reason = DetailsOf(status).reason;
  const std::string cause = SilenceCause(status.message());
  if (absl::IsUnavailable(status) && reason.empty() && !cause.empty()) {
    return absl::StrCat("UNAVAILABLE: nothing listens on ", options.address, " (", cause,
                        "); start embedding-server there, or name another address by --address or EMBEDDING_ADDRESS");
  }
  if (absl::IsDeadlineExceeded(status) && reason.empty()) {  // of the last of several calls: say the command's time
    return absl::StrCat("DEADLINE_EXCEEDED: no full answer from ", options.address, " within ",
                        options.deadline.count(), " ms; --deadline gives more time");
  }
  return absl::StrCat(absl::StatusCodeToString(status.code()), reason.empty() ? "" : absl::StrCat(" (", reason, ")"),
                      ": ", status.message(), Advice(reason));
}

int FailureExitCode(const absl::Status& status) { return 64 + static_cast<int>(status.code()); }

}  // namespace embedding::client
