// absl::Status <-> grpc::Status with google.rpc details: the only place where they meet.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace embedding {

// ErrorInfo.domain of every error.
inline constexpr char kErrorDomain[] = "embedding.v1";

// Key of ErrorInfo.metadata whose value is the number of milliseconds after which a refused call may be retried. The
// transport copies it into the trailing metadata kRetryPushbackHeader, which gRPC's own retry policy obeys (gRFC A6).
inline constexpr char kRetryPushbackKey[] = "retry_pushback_ms";
inline constexpr char kRetryPushbackHeader[] = "grpc-retry-pushback-ms";

struct FieldViolation {
  std::string field;        // path, such as "rows.ids.values[3]"
  std::string description;  // given and allowed
};

// What travels beside code and message.
struct ErrorDetails {
  std::string reason;  // UPPER_SNAKE_CASE
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<FieldViolation> violations;
};

// A status with details. The message is made one line of printable ASCII or UTF-8 text and cut at 512 bytes; message
// and details together stay under 4 KiB as they are encoded on the wire (percent and base64): violations, then metadata
// are dropped from the end.
absl::Status ErrorWithDetails(absl::StatusCode code, absl::string_view message, ErrorDetails details);

// The details of a status; empty reason if it has none.
ErrorDetails DetailsOf(const absl::Status& status);

// To the wire, within the bounds above whatever the status holds: grpc-status-details-bin is a google.rpc.Status with
// the same message, ErrorInfo and, where there are violations, BadRequest. Without a reason there are no details.
grpc::Status ToGrpcStatus(const absl::Status& status);
// From the wire; details that do not parse are left out, of several ErrorInfos or BadRequests the first counts.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Text from outside made safe for a message: quotes and control characters escaped, cut to max_bytes with "...".
std::string Escaped(absl::string_view text, size_t max_bytes = 64);

}  // namespace embedding
