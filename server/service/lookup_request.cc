#include "server/service/lookup_request.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/utf8.h"
#include "server/service/request_errors.h"
#include "server/service/wire_reader.h"

namespace embedding {
namespace {

// Field numbers, from the generated code.
using Ids = v1::IdList;
using Keys = v1::KeyList;
using PoolingMessage = v1::Pooling;
using Request = v1::LookupRequest;
using Selector = v1::RowSelector;
using Spec = v1::TableSpec;
using TensorFields = v1::Tensor;

// As protobuf: a message in 100 others, groups included.
constexpr int kMaxDepth = 100;

class Parser {
 public:
  // depth: how many messages and groups may nest in the LookupRequest.
  Parser(LookupRequest* request, int64_t keep, int depth)
      : request_(*request), rows_(request->rows), keep_(keep), depth_(depth) {}

  bool ParseRequest(absl::string_view message) {
    return WalkFields(message, depth_, [&](uint32_t tag, WireReader& reader) {
      switch (tag) {
        case BytesTag(Request::kTableFieldNumber):
          return SubMessage(reader, [&](absl::string_view sub) { return ParseTable(sub); });
        case BytesTag(Request::kRowsFieldNumber):
          return SubMessage(reader, [&](absl::string_view sub) { return ParseRows(sub); });
        case BytesTag(Request::kPoolingFieldNumber):
          return SubMessage(reader, [&](absl::string_view sub) { return ParsePooling(sub); });
        case VarintTag(Request::kMissingFieldNumber):
          return Number(reader, &request_.missing);
        case VarintTag(Request::kNormalizeFieldNumber):
          return Number(reader, &request_.normalize);
        case VarintTag(Request::kDimensionsFieldNumber):
          return Number(reader, &request_.dimensions);
        case VarintTag(Request::kOutputDtypeFieldNumber):
          return Number(reader, &request_.output_dtype);
        case VarintTag(Request::kEncodingFieldNumber):
          return Number(reader, &request_.encoding);
        default:
          return Field::kUnknown;
      }
    });
  }

  // Why a parse failed, where more is known than that it did.
  const std::string& reason() const { return reason_; }

 private:
  using Kind = RowSelection::Kind;

  template <typename Parse>
  static Field SubMessage(WireReader& reader, Parse parse) {
    absl::string_view sub;
    return reader.ReadBytes(&sub) && parse(sub) ? Field::kKnown : Field::kMalformed;
  }

  // Integers keep their low bits and bools are true for all but 0, as in protobuf.
  template <typename Int>
  static Field Number(WireReader& reader, Int* to) {
    uint64_t value = 0;
    if (!reader.ReadVarint(&value)) return Field::kMalformed;
    *to = static_cast<Int>(value);
    return Field::kKnown;
  }

  Field Text(WireReader& reader, absl::string_view* to, absl::string_view name) {
    if (!reader.ReadBytes(to)) return Field::kMalformed;
    if (IsValidUtf8(*to)) return Field::kKnown;
    reason_ = absl::StrCat(name, " is not valid UTF-8");
    return Field::kMalformed;
  }

  bool ParseTable(absl::string_view message) {
    return WalkFields(message, depth_ - 1, [&](uint32_t tag, WireReader& reader) {
      switch (tag) {
        case BytesTag(Spec::kNameFieldNumber):
          return Text(reader, &request_.table_name, "table.name");
        case VarintTag(Spec::kVersionFieldNumber):
          return Number(reader, &request_.table_version);
        default:
          return Field::kUnknown;
      }
    });
  }

  bool ParseRows(absl::string_view message) {
    return WalkFields(message, depth_ - 1, [&](uint32_t tag, WireReader& reader) {
      switch (tag) {
        case BytesTag(Selector::kIdsFieldNumber):
          return Member(Kind::kIds, reader, [&](absl::string_view sub) { return ParseIds(sub); });
        case BytesTag(Selector::kKeysFieldNumber):
          return Member(Kind::kKeys, reader, [&](absl::string_view sub) { return ParseKeys(sub); });
        case BytesTag(Selector::kIdTensorFieldNumber):
          return Member(Kind::kIdTensor, reader, [&](absl::string_view sub) { return ParseTensor(sub); });
        default:
          return Field::kUnknown;
      }
    });
  }

  bool ParsePooling(absl::string_view message) {
    if (!request_.pooling) request_.pooling.emplace();
    PoolingFields& pooling = *request_.pooling;
    return WalkFields(message, depth_ - 1, [&](uint32_t tag, WireReader& reader) {
      switch (tag) {
        case VarintTag(PoolingMessage::kModeFieldNumber):
          return Number(reader, &pooling.mode);
        case BytesTag(PoolingMessage::kOffsetsFieldNumber):
          return PackedOffsets(pooling, reader);
        case VarintTag(PoolingMessage::kOffsetsFieldNumber):
          return OneInt64(reader, [&](int64_t offset) { AddOffset(pooling, offset); });
        case VarintTag(PoolingMessage::kIncludeLastOffsetFieldNumber):
          return Number(reader, &pooling.include_last_offset);
        case BytesTag(PoolingMessage::kWeightsFieldNumber):
          return PackedWeights(pooling, reader);
        case Fixed32Tag(PoolingMessage::kWeightsFieldNumber):
          return OneWeight(pooling, reader) ? Field::kKnown : Field::kMalformed;
        case VarintTag(PoolingMessage::kPaddingIdFieldNumber):
          return OneInt64(reader, [&](int64_t id) { pooling.padding_id = id; });
        default:
          return Field::kUnknown;
      }
    });
  }

  // A member of the oneof: it merges into itself and replaces another.
  template <typename Parse>
  Field Member(Kind kind, WireReader& reader, Parse parse) {
    if (rows_.kind != kind) {
      rows_ = RowSelection();
      rows_.kind = kind;
    }
    return SubMessage(reader, parse);
  }

  bool ParseIds(absl::string_view message) {
    return WalkFields(message, depth_ - 2, [&](uint32_t tag, WireReader& reader) {
      switch (tag) {
        case BytesTag(Ids::kValuesFieldNumber):
          return PackedIds(reader);
        case VarintTag(Ids::kValuesFieldNumber):
          return OneInt64(reader, [&](int64_t id) { AddId(id); });
        default:
          return ShapeField(tag, reader, Ids::kShapeFieldNumber);
      }
    });
  }

  bool ParseKeys(absl::string_view message) {
    return WalkFields(message, depth_ - 2, [&](uint32_t tag, WireReader& reader) {
      if (tag != BytesTag(Keys::kValuesFieldNumber)) return ShapeField(tag, reader, Keys::kShapeFieldNumber);
      absl::string_view key;
      if (!reader.ReadBytes(&key)) return Field::kMalformed;
      if (!IsValidUtf8(key)) {
        reason_ = absl::StrCat("rows.keys.values[", rows_.count, "] is not valid UTF-8");
        return Field::kMalformed;
      }
      if (rows_.count < keep_) rows_.keys.push_back(key);
      ++rows_.count;
      return Field::kKnown;
    });
  }

  bool ParseTensor(absl::string_view message) {
    return WalkFields(message, depth_ - 2, [&](uint32_t tag, WireReader& reader) {
      switch (tag) {
        case VarintTag(TensorFields::kDtypeFieldNumber):
          return Number(reader, &rows_.dtype);
        case BytesTag(TensorFields::kDataFieldNumber):
          return reader.ReadBytes(&rows_.data) ? Field::kKnown : Field::kMalformed;
        case BytesTag(TensorFields::kValuesFieldNumber): {
          absl::string_view packed;
          if (!reader.ReadBytes(&packed) || packed.size() % sizeof(float) != 0) return Field::kMalformed;
          rows_.num_values += static_cast<int64_t>(packed.size() / sizeof(float));
          return Field::kKnown;
        }
        case Fixed32Tag(TensorFields::kValuesFieldNumber):
          ++rows_.num_values;
          return reader.SkipFixed(sizeof(float)) ? Field::kKnown : Field::kMalformed;
        default:
          return ShapeField(tag, reader, TensorFields::kShapeFieldNumber);
      }
    });
  }

  Field ShapeField(uint32_t tag, WireReader& reader, int field_number) {
    const auto add = [&](int64_t size) {
      if (rows_.rank <= kMaxRank) rows_.shape.push_back(size);
      ++rows_.rank;
    };
    const auto number = static_cast<uint32_t>(field_number);
    if (tag == VarintTag(number)) return OneInt64(reader, add);
    if (tag != BytesTag(number)) return Field::kUnknown;
    absl::string_view packed;
    return reader.ReadBytes(&packed) && ForEachPacked(packed, add) ? Field::kKnown : Field::kMalformed;
  }

  Field PackedIds(WireReader& reader) {
    absl::string_view packed;
    if (!reader.ReadBytes(&packed)) return Field::kMalformed;
    Reserve(rows_.ids, CountOfVarints(packed), keep_ - rows_.count);
    return ForEachPacked(packed, [&](int64_t id) { AddId(id); }) ? Field::kKnown : Field::kMalformed;
  }

  void AddId(int64_t id) {
    if (rows_.count < keep_) rows_.ids.push_back(id);
    ++rows_.count;
  }

  Field PackedOffsets(PoolingFields& pooling, WireReader& reader) {
    absl::string_view packed;
    if (!reader.ReadBytes(&packed)) return Field::kMalformed;
    Reserve(pooling.offsets, CountOfVarints(packed), KeptOffsets() - pooling.num_offsets);
    return ForEachPacked(packed, [&](int64_t offset) { AddOffset(pooling, offset); }) ? Field::kKnown
                                                                                      : Field::kMalformed;
  }

  void AddOffset(PoolingFields& pooling, int64_t offset) const {
    if (pooling.num_offsets < KeptOffsets()) pooling.offsets.push_back(offset);
    ++pooling.num_offsets;
  }

  int64_t KeptOffsets() const { return keep_ == std::numeric_limits<int64_t>::max() ? keep_ : keep_ + 1; }

  Field PackedWeights(PoolingFields& pooling, WireReader& reader) const {
    absl::string_view packed;
    if (!reader.ReadBytes(&packed) || packed.size() % sizeof(float) != 0) return Field::kMalformed;
    Reserve(pooling.weights, static_cast<int64_t>(packed.size() / sizeof(float)), keep_ - pooling.num_weights);
    WireReader values(packed);
    while (!values.done()) OneWeight(pooling, values);
    return Field::kKnown;
  }

  bool OneWeight(PoolingFields& pooling, WireReader& reader) const {
    uint32_t bits = 0;
    if (!reader.ReadFixed32(&bits)) return false;
    if (pooling.num_weights < keep_) pooling.weights.push_back(std::bit_cast<float>(bits));
    ++pooling.num_weights;
    return true;
  }

  // As many as bytes that end one, at most.
  static int64_t CountOfVarints(absl::string_view packed) {
    return std::count_if(packed.begin(), packed.end(), [](char c) { return (c & 0x80) == 0; });
  }

  // Room for `more` elements, but not for those that are not kept: an allocation that the request has paid for.
  template <typename T>
  static void Reserve(std::vector<T>& list, int64_t more, int64_t kept) {
    list.reserve(list.size() + static_cast<size_t>(std::clamp<int64_t>(kept, 0, more)));
  }

  template <typename Add>
  static Field OneInt64(WireReader& reader, Add add) {
    int64_t value = 0;
    const Field field = Number(reader, &value);
    if (field == Field::kKnown) add(value);
    return field;
  }

  template <typename Add>
  static bool ForEachPacked(absl::string_view packed, Add add) {
    WireReader values(packed);
    while (!values.done()) {
      uint64_t value = 0;
      if (!values.ReadVarint(&value)) return false;
      add(static_cast<int64_t>(value));
    }
    return true;
  }

  LookupRequest& request_;
  RowSelection& rows_;
  const int64_t keep_;
  const int depth_;
  std::string reason_;
};

absl::Status Outcome(bool parsed, const Parser& parser, absl::string_view message_name) {
  if (parsed) return absl::OkStatus();
  return MalformedRequest(message_name, parser.reason().empty() ? "broken protobuf encoding" : parser.reason());
}

}  // namespace

absl::Status ParseLookupRequest(absl::string_view bytes, LookupRequest* request, int64_t keep) {
  *request = LookupRequest();
  Parser parser(request, keep, kMaxDepth);
  return Outcome(parser.ParseRequest(bytes), parser, "embedding.v1.LookupRequest");
}

absl::Status ParseLookupStreamRequest(absl::string_view bytes, LookupRequest* request, int64_t keep) {
  *request = LookupRequest();
  Parser parser(request, keep, kMaxDepth - 1);
  const bool parsed = WalkFields(bytes, kMaxDepth, [&](uint32_t tag, WireReader& reader) {
    if (tag != BytesTag(v1::LookupStreamRequest::kLookupFieldNumber)) return Field::kUnknown;
    absl::string_view lookup;
    return reader.ReadBytes(&lookup) && parser.ParseRequest(lookup) ? Field::kKnown : Field::kMalformed;
  });
  return Outcome(parsed, parser, "embedding.v1.LookupStreamRequest");
}

}  // namespace embedding
