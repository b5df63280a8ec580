#include "server/service/field_counts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "google/protobuf/wire_format_lite.h"
#include "server/service/request_errors.h"

namespace embedding {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

// As protobuf: a message in 100 others, groups included.
constexpr int kMaxDepth = 100;

// Parts of a request that are no sets of vectors.
constexpr int64_t kOtherParts = 65536;

uint32_t WireTypeOf(const FieldDescriptor& field) {
  return WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
}

int64_t PackedValues(absl::string_view packed, uint32_t wire_type) {
  if (wire_type == kFixed32Type) return static_cast<int64_t>(packed.size() / 4);
  if (wire_type == kFixed64Type) return static_cast<int64_t>(packed.size() / 8);
  return std::count_if(packed.begin(), packed.end(), [](char c) { return (c & 0x80) == 0; });  // ends of varints
}

}  // namespace

FieldCounts::FieldCounts(absl::string_view body, const Descriptor& type) { Walk(body, type, kMaxDepth, body_); }

int64_t FieldCounts::Of(absl::string_view path) const {
  const Node* node = &body_;
  while (!path.empty()) {
    const absl::string_view name = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    const auto next = std::find_if(node->inside.begin(), node->inside.end(),
                                   [&](const auto& field) { return field->field->name() == name; });
    if (next == node->inside.end()) return 0;
    node = next->get();
  }
  return node->count;
}

bool FieldCounts::Walk(absl::string_view message, const Descriptor& type, int depth, Node& node) {
  return WalkFields(message, depth,
                    [&](uint32_t tag, WireReader& reader) { return Take(tag, type, depth, node, reader); });
}

Field FieldCounts::Take(uint32_t tag, const Descriptor& type, int depth, Node& node, WireReader& reader) {
  const uint32_t wire_type = tag & 7;
  Node* const inside = Inside(tag >> 3, type, node);
  if (inside != nullptr) {
    const FieldDescriptor& field = *inside->field;
    absl::string_view bytes;
    if (field.message_type() != nullptr && wire_type == kBytesType) {
      ++parts_;
      ++inside->count;
      return reader.ReadBytes(&bytes) && Walk(bytes, *field.message_type(), depth - 1, *inside) ? Field::kKnown
                                                                                                : Field::kMalformed;
    }
    if (field.is_packable() && wire_type == kBytesType) {
      if (!reader.ReadBytes(&bytes)) return Field::kMalformed;
      inside->count += PackedValues(bytes, WireTypeOf(field));
      return Field::kKnown;
    }
    if (wire_type == WireTypeOf(field)) {
      ++inside->count;
      return Field::kUnknown;  // its value is not looked at
    }
  }
  ++parts_;
  if (wire_type != kGroupType) return Field::kUnknown;
  const size_t before = reader.remaining();
  const bool skipped = reader.Skip(tag, depth);
  parts_ += static_cast<int64_t>((before - reader.remaining()) / 2);
  return skipped ? Field::kKnown : Field::kMalformed;
}

FieldCounts::Node* FieldCounts::Inside(uint32_t number, const Descriptor& type, Node& node) {
  for (const auto& seen : node.inside) {
    if (static_cast<uint32_t>(seen->field->number()) == number) return seen.get();
  }
  const FieldDescriptor* const field = type.FindFieldByNumber(static_cast<int>(number));
  if (field == nullptr) return nullptr;
  node.inside.push_back(std::make_unique<Node>());
  node.inside.back()->field = field;
  return node.inside.back().get();
}

absl::Status CheckParts(const FieldCounts& counts, const RequestLimits& limits, absl::string_view message_name) {
  const int64_t most = kOtherParts + 4 * limits.max_ids;
  if (counts.parts() <= most) return absl::OkStatus();
  return MalformedRequest(message_name, absl::StrCat(counts.parts(), " sub-messages and unknown fields, at most ", most,
                                                     " (", kOtherParts, " and 4 for each of --max-ids)"));
}

}  // namespace embedding
