// The refusals that several handlers share: code, reason, metadata and field path of each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "server/table/embedding_table.h"

namespace embedding {

// INVALID_ARGUMENT (MALFORMED): "not a valid embedding.v1.LookupRequest: REASON".
absl::Status MalformedRequest(absl::string_view message_name, absl::string_view reason);

// INVALID_ARGUMENT (INVALID_FIELD), the message being the violation's description too.
absl::Status InvalidField(absl::string_view path, absl::string_view message);

// INVALID_ARGUMENT (LIMIT_EXCEEDED). "WHAT, limit LIMIT (FLAG); HINT". hint: the largest batch that fits.
absl::Status LimitExceeded(absl::string_view path, absl::string_view what, int64_t limit, absl::string_view flag,
                           absl::string_view hint);

// FAILED_PRECONDITION (NO_KEYS).
absl::Status NoKeys(const EmbeddingTable& table);

// FAILED_PRECONDITION (NO_INDEX): index_metric is the metric of the table's index, empty where it has none.
absl::Status NoIndex(const EmbeddingTable& table, absl::string_view metric, absl::string_view index_metric);

// INVALID_ARGUMENT unless number is a value of the enum: "metric=17, allowed: METRIC_UNSPECIFIED (0), ...".
absl::Status CheckEnum(absl::string_view path, int number, const google::protobuf::EnumDescriptor* type);

// "DTYPE_F16"; of a number that Dtype does not know, the number.
std::string DtypeText(int number);

// LimitExceeded for an answer of needed_bytes. hint: the largest batch that fits.
absl::Status AnswerTooLarge(absl::string_view path, uint64_t needed_bytes, int64_t max_response_bytes,
                            absl::string_view hint);

// The largest n in [0, at_most] with bytes(n) <= limit, or 0 if there is none. bytes: never falls while n grows.
int64_t LargestThatFits(int64_t at_most, int64_t limit, const std::function<uint64_t(int64_t)>& bytes);

// "[2, 3]"; of long shapes the first nine sizes.
std::string ShapeText(const int64_t* sizes, int64_t kept, int64_t rank);

}  // namespace embedding
