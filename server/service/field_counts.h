// How many values a request's lists hold, counted before protobuf makes a message of it: two bytes of a body may become
// fifty of memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "server/service/limits.h"
#include "server/service/wire_reader.h"

namespace embedding {

class FieldCounts {
 public:
  // Walks over the bytes of a message of this type, which holds no message of its own type at any depth. What is
  // malformed ends the walk: the parser, which gets no further, is to say so.
  FieldCounts(absl::string_view body, const google::protobuf::Descriptor& type);

  // Values of a repeated field, or how often another one occurs, over all messages that hold it, whichever members of a
  // oneof win in the end. path: names of fields, such as "targets.rows.ids.values", all of the type.
  int64_t Of(absl::string_view path) const;

  // Sub-messages, and fields that the type does not know, which protobuf keeps. Of a group, which nobody writes any
  // more, as many as it could hold.
  int64_t parts() const { return parts_; }

 private:
  // A field, with those inside it that have been seen.
  struct Node {
    const google::protobuf::FieldDescriptor* field = nullptr;  // null: the body
    int64_t count = 0;
    std::vector<std::unique_ptr<Node>> inside;
  };

  bool Walk(absl::string_view message, const google::protobuf::Descriptor& type, int depth, Node& node);
  Field Take(uint32_t tag, const google::protobuf::Descriptor& type, int depth, Node& node, WireReader& reader);
  static Node* Inside(uint32_t number, const google::protobuf::Descriptor& type, Node& node);

  Node body_;
  int64_t parts_ = 0;
};

// INVALID_ARGUMENT (MALFORMED) for more parts than an honest request has: 65,536 and four for each of max_ids.
absl::Status CheckParts(const FieldCounts& counts, const RequestLimits& limits, absl::string_view message_name);

}  // namespace embedding
