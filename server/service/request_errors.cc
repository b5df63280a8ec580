#include "server/service/request_errors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "proto/status_codec.h"

namespace embedding {
namespace {

absl::Status InvalidArgument(absl::string_view reason, absl::string_view path, absl::string_view message,
                             std::vector<std::pair<std::string, std::string>> metadata = {}) {
  ErrorDetails details;
  details.reason = std::string(reason);
  details.metadata = std::move(metadata);
  if (!path.empty()) details.violations = {{std::string(path), std::string(message)}};
  return ErrorWithDetails(absl::StatusCode::kInvalidArgument, message, std::move(details));
}

}  // namespace

absl::Status MalformedRequest(absl::string_view message_name, absl::string_view reason) {
  return InvalidArgument("MALFORMED", "", absl::StrCat("not a valid ", message_name, ": ", reason));
}

absl::Status InvalidField(absl::string_view path, absl::string_view message) {
  return InvalidArgument("INVALID_FIELD", path, message);
}

absl::Status LimitExceeded(absl::string_view path, absl::string_view what, int64_t limit, absl::string_view flag,
                           absl::string_view hint) {
  return InvalidArgument("LIMIT_EXCEEDED", path, absl::StrCat(what, ", limit ", limit, " (", flag, "); ", hint),
                         {{"flag", std::string(flag)}, {"limit", absl::StrCat(limit)}});
}

absl::Status NoKeys(const EmbeddingTable& table) {
  return ErrorWithDetails(absl::StatusCode::kFailedPrecondition,
                          absl::StrCat("table \"", table.name(), "\" has no keys; load it with vocab=FILE"),
                          {"NO_KEYS", {{"table", table.name()}}, {}});
}

absl::Status NoIndex(const EmbeddingTable& table, absl::string_view metric, absl::string_view index_metric) {
  const std::string message =
      index_metric.empty()
          ? absl::StrCat("table \"", table.name(),
                         "\" has no index for approximate searches; load it with index=hnsw, or ask for "
                         "SEARCH_MODE_EXACT")
          : absl::StrCat("the index of table \"", table.name(), "\" is for ", index_metric, ", not ", metric,
                         "; load it with metric=", metric, ", or ask for SEARCH_MODE_EXACT");
  return ErrorWithDetails(absl::StatusCode::kFailedPrecondition, message,
                          {"NO_INDEX", {{"table", table.name()}, {"metric", std::string(metric)}}, {}});
}

absl::Status CheckEnum(absl::string_view path, int number, const google::protobuf::EnumDescriptor* type) {
  if (type->FindValueByNumber(number) != nullptr) return absl::OkStatus();
  std::string allowed;
  for (int i = 0; i < type->value_count(); ++i) {
    absl::StrAppend(&allowed, i == 0 ? "" : ", ", type->value(i)->name(), " (", type->value(i)->number(), ")");
  }
  return InvalidField(path, absl::StrCat(path, "=", number, ", allowed: ", allowed));
}

std::string DtypeText(int number) {
  return v1::Dtype_IsValid(number) ? v1::Dtype_Name(static_cast<v1::Dtype>(number)) : absl::StrCat(number);
}

absl::Status AnswerTooLarge(absl::string_view path, uint64_t needed_bytes, int64_t max_response_bytes,
                            absl::string_view hint) {
  return LimitExceeded(path, absl::StrCat("the answer needs ", needed_bytes, " bytes"), max_response_bytes,
                       "--max-response-bytes", hint);
}

int64_t LargestThatFits(int64_t at_most, int64_t limit, const std::function<uint64_t(int64_t)>& bytes) {
  int64_t fits = 0, beyond = at_most + 1;
  while (beyond - fits > 1) {
    const int64_t middle = fits + (beyond - fits) / 2;
    (bytes(middle) <= static_cast<uint64_t>(limit) ? fits : beyond) = middle;
  }
  return fits;
}

std::string ShapeText(const int64_t* sizes, int64_t kept, int64_t rank) {
  std::string text = "[";
  for (int64_t i = 0; i < std::min<int64_t>({kept, rank, 9}); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", sizes[i]);
  return text + (rank > 9 ? ", ...]" : "]");
}

}  // namespace embedding
