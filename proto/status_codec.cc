#include "proto/status_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/utf8.h"

namespace embedding {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr size_t kMaxMessageBytes = 512;
constexpr size_t kMaxReasonBytes = 63;  // google.rpc.ErrorInfo's own bound
constexpr size_t kMaxDetailTextBytes = 512;
// Of 4 KiB; the rest is for the names of the two headers and for padding.
constexpr size_t kMaxWireBytes = 4000;

// Whether a character would break the line, hide, or turn the direction of what follows: C0, DEL and C1 controls,
// U+2028 to U+202E and U+2066 to U+2069.
bool IsUnprintable(absl::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() == 3 && byte(0) == 0xE2) {
    return (byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) ||
           (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
  }
  return false;
}

// Calls use(piece) for each piece of text made printable; use returns false to end the walk.
template <typename Use>
void ForEachPrintable(absl::string_view text, bool escape_quotes, Use use) {
  constexpr char kHex[] = "0123456789abcdef";
  while (!text.empty()) {
    const size_t size = Utf8CharacterSize(text);
    const absl::string_view character = text.substr(0, size == 0 ? 1 : size);
    text.remove_prefix(character.size());
    std::string escaped;
    if (size == 0 || IsUnprintable(character)) {
      if (character == "\n") {
        escaped = "\\n";
      } else {
        for (const char c : character) {
          escaped += "\\x";
          escaped += kHex[static_cast<uint8_t>(c) >> 4];
          escaped += kHex[static_cast<uint8_t>(c) & 15];
        }
      }
    } else if (escape_quotes && (character == "\"" || character == "\\")) {
      escaped = absl::StrCat("\\", character);
    }
    if (!use(escaped.empty() ? character : absl::string_view(escaped))) return;
  }
}

// text made one printable line of at most max_bytes; "..." stands for what was cut off.
std::string Printable(absl::string_view text, size_t max_bytes, bool escape_quotes) {
  constexpr absl::string_view kCut = "...";
  std::string out;
  size_t size_before_cut = 0;  // the longest prefix of whole pieces that leaves room for kCut
  bool fits = true;
  ForEachPrintable(text, escape_quotes, [&](absl::string_view piece) {
    fits = out.size() + piece.size() <= max_bytes;
    if (!fits) return false;
    out.append(piece.data(), piece.size());
    if (out.size() + kCut.size() <= max_bytes) size_before_cut = out.size();
    return true;
  });
  if (!fits) {
    out.resize(size_before_cut);
    out.append(kCut.data(), kCut.size());
  }
  return out;
}

// Bytes of a grpc-message header's value: gRPC sends printable ASCII but '%' as it is, the rest as %XX.
size_t PercentEncodedSize(absl::string_view message) {
  size_t size = 0;
  for (const char c : message) size += c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3;
  return size;
}

size_t Base64Size(size_t bytes) { return (bytes + 2) / 3 * 4; }

google::rpc::ErrorInfo ToErrorInfo(const ErrorDetails& details) {
  google::rpc::ErrorInfo info;
  info.set_reason(details.reason);
  info.set_domain(kErrorDomain);
  for (const auto& [key, value] : details.metadata) info.mutable_metadata()->insert({key, value});
  return info;
}

google::rpc::BadRequest ToBadRequest(const ErrorDetails& details) {
  google::rpc::BadRequest bad;
  for (const FieldViolation& violation : details.violations) {
    google::rpc::BadRequest::FieldViolation* to = bad.add_field_violations();
    to->set_field(violation.field);
    to->set_description(violation.description);
  }
  return bad;
}

// The google.rpc.Status of a message and details; empty if there is no reason.
std::string WireDetails(absl::StatusCode code, const std::string& message, const ErrorDetails& details) {
  if (details.reason.empty()) return {};
  google::rpc::Status status;
  status.set_code(static_cast<int>(code));
  status.set_message(message);
  status.add_details()->PackFrom(ToErrorInfo(details));
  if (!details.violations.empty()) status.add_details()->PackFrom(ToBadRequest(details));
  return status.SerializeAsString();
}

// The first n entries: metadata, then violations.
ErrorDetails FirstEntries(const ErrorDetails& details, size_t n) {
  const auto metadata = details.metadata.begin();
  const auto violations = details.violations.begin();
  const size_t of_metadata = std::min(n, details.metadata.size());
  const size_t of_violations = std::min(n - of_metadata, details.violations.size());
  return {details.reason,
          {metadata, metadata + static_cast<ptrdiff_t>(of_metadata)},
          {violations, violations + static_cast<ptrdiff_t>(of_violations)}};
}

// Brings details within the bounds, beside a message that already is. Message and reason alone are far below them.
ErrorDetails Trimmed(absl::StatusCode code, const std::string& message, ErrorDetails details) {
  // No more entries than this can fit; what is beyond is not worth the work of measuring.
  constexpr size_t kMaxEntries = 64;
  details.metadata.resize(std::min(details.metadata.size(), kMaxEntries));
  details.violations.resize(std::min(details.violations.size(), kMaxEntries));
  details.reason = Printable(details.reason, kMaxReasonBytes, false);
  for (auto& [key, value] : details.metadata) {
    key = Printable(key, kMaxReasonBytes, false);
    value = Printable(value, kMaxDetailTextBytes, false);
  }
  for (FieldViolation& violation : details.violations) {
    violation.field = Printable(violation.field, kMaxDetailTextBytes, false);
    violation.description = Printable(violation.description, kMaxDetailTextBytes, false);
  }
  const auto fits = [&](const ErrorDetails& some) {
    return PercentEncodedSize(message) + Base64Size(WireDetails(code, message, some).size()) <= kMaxWireBytes;
  };
  if (fits(details)) return details;
  size_t fitting = 0, beyond = details.metadata.size() + details.violations.size();
  while (beyond - fitting > 1) {
    const size_t middle = fitting + (beyond - fitting) / 2;
    (fits(FirstEntries(details, middle)) ? fitting : beyond) = middle;
  }
  return FirstEntries(details, fitting);
}

absl::Status WithDetails(absl::StatusCode code, const std::string& message, const ErrorDetails& details) {
  absl::Status status(code, message);
  if (details.reason.empty()) return status;
  status.SetPayload(kErrorInfoUrl, absl::Cord(ToErrorInfo(details).SerializeAsString()));
  if (!details.violations.empty()) {
    status.SetPayload(kBadRequestUrl, absl::Cord(ToBadRequest(details).SerializeAsString()));
  }
  return status;
}

void AddErrorInfo(const google::rpc::ErrorInfo& info, ErrorDetails& details) {
  details.reason = info.reason();
  details.metadata.assign(info.metadata().begin(), info.metadata().end());
  // A map has no order; ours shall not depend on the hash of the day.
  std::sort(details.metadata.begin(), details.metadata.end());
}

void AddBadRequest(const google::rpc::BadRequest& bad, ErrorDetails& details) {
  for (const auto& violation : bad.field_violations()) {
    details.violations.push_back({violation.field(), violation.description()});
  }
}

}  // namespace

std::string Escaped(absl::string_view text, size_t max_bytes) { return Printable(text, max_bytes, true); }

absl::Status ErrorWithDetails(absl::StatusCode code, absl::string_view message, ErrorDetails details) {
  const std::string line = Printable(message, kMaxMessageBytes, false);
  return WithDetails(code, line, Trimmed(code, line, std::move(details)));
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  if (const absl::optional<absl::Cord> payload = status.GetPayload(kErrorInfoUrl)) {
    google::rpc::ErrorInfo info;
    if (info.ParseFromString(std::string(*payload))) AddErrorInfo(info, details);
  }
  if (const absl::optional<absl::Cord> payload = status.GetPayload(kBadRequestUrl)) {
    google::rpc::BadRequest bad;
    if (bad.ParseFromString(std::string(*payload))) AddBadRequest(bad, details);
  }
  return details;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Printable(status.message(), kMaxMessageBytes, false);
  const ErrorDetails details = Trimmed(status.code(), message, DetailsOf(status));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      WireDetails(status.code(), message, details));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  ErrorDetails details;
  bool has_info = false, has_bad_request = false;
  google::rpc::Status rich;
  if (rich.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& any : rich.details()) {
      google::rpc::ErrorInfo info;
      google::rpc::BadRequest bad;
      if (!has_info && any.Is<google::rpc::ErrorInfo>() && any.UnpackTo(&info)) {
        AddErrorInfo(info, details);
        has_info = true;
      } else if (!has_bad_request && any.Is<google::rpc::BadRequest>() && any.UnpackTo(&bad)) {
        AddBadRequest(bad, details);
        has_bad_request = true;
      }
    }
  }
  const int number = status.error_code();
  const absl::StatusCode code =
      number >= 0 && number <= 16 ? static_cast<absl::StatusCode>(number) : absl::StatusCode::kUnknown;
  return WithDetails(code, status.error_message(), details);
}

}  // namespace embedding
