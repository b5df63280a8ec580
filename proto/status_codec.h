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

// A status with details. The message is made one line of printable ASCII or UTF-8 text and cut at 512 bytes; message and
// details together stay under 4 KiB (violations and metadata are dropped from the end).
absl::Status ErrorWithDetails(absl::StatusCode code, absl::string_view message, ErrorDetails details);

// The details of a status; empty reason if it has none.
ErrorDetails DetailsOf(const absl::Status& status);

// To the wire: grpc-status-details-bin holds a google.rpc.Status with ErrorInfo and, where there are violations, BadRequest.
grpc::Status ToGrpcStatus(const absl::Status& status);
// From the wire; details that do not parse are left out.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Text from outside made safe for a message: quotes and control characters escaped, cut to max_bytes with "...".
std::string Escaped(absl::string_view text, size_t max_bytes = 64);

}  // namespace embedding
