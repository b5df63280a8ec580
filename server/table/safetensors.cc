#include "server/table/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/table/json.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

using absl::string_view;
namespace dom = simdjson::dom;

// A good header has three levels; unknown fields may bring more. The walks below recurse, so the depth must be bounded.
constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxListed = 10;

// Bits of one element; 0 for a dtype that is not known here.
unsigned DtypeBits(string_view dtype) {
  static constexpr std::pair<std::string_view, unsigned> kBits[] = {
      {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},        {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64},
      {"U64", 64},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6},
  };
  for (const auto& [name, bits] : kBits) {
    if (dtype == View(name)) return bits;
  }
  return 0;
}

std::string ShapeText(const std::vector<uint64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

absl::Status HeaderError(string_view what) { return absl::DataLossError(absl::StrCat("safetensors header ", what)); }

absl::Status TensorError(string_view name, string_view what) {
  return absl::DataLossError(absl::StrCat("tensor ", Quoted(name), " ", what));
}

// The byte of the first "-0" outside strings, or npos. simdjson reads it as the integer 0; sizes have no sign.
size_t FindNegativeZero(string_view json) {
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (in_string) {
      if (json[i] == '\\') {
        ++i;
      } else if (json[i] == '"') {
        in_string = false;
      }
    } else if (json[i] == '"') {
      in_string = true;
    } else if (json[i] == '-' && i + 1 < json.size() && json[i + 1] == '0') {
      const char next = i + 2 < json.size() ? json[i + 2] : ' ';
      if (next != '.' && next != 'e' && next != 'E') return i;
    }
  }
  return string_view::npos;
}

absl::Status ParseMetadata(dom::element value, SafetensorsMetadata* kept) {
  const std::optional<dom::object> metadata = As<dom::object>(value);
  if (!metadata.has_value())
    return HeaderError(absl::StrCat("has __metadata__ ", ValueText(value), ", wanted an object"));
  for (const dom::key_value_pair field : *metadata) {
    const std::optional<std::string_view> text = As<std::string_view>(field.value);
    if (!text.has_value()) {
      return HeaderError(absl::StrCat("has __metadata__ ", Quoted(View(field.key)), " with the value ",
                                      ValueText(field.value), ", wanted a string"));
    }
    if (kept != nullptr) kept->emplace(field.key, *text);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ParseSizes(string_view tensor, string_view field, dom::element value) {
  const std::optional<dom::array> array = As<dom::array>(value);
  if (!array.has_value()) {
    return TensorError(tensor, absl::StrCat("has ", field, " ", ValueText(value), ", wanted an array of integers"));
  }
  std::vector<uint64_t> sizes;
  for (const dom::element item : *array) {
    uint64_t size = 0;
    if (!(item.is_int64() || item.is_uint64()) || item.get_uint64().get(size) != simdjson::SUCCESS) {
      return TensorError(tensor, absl::StrCat("has ", field, " with the value ", ValueText(item),
                                              ", wanted an integer from 0 to 2^64-1"));
    }
    // Not stored beyond what any check needs: a rank is judged by the caller.
    if (sizes.size() > kMaxRank) break;
    sizes.push_back(size);
  }
  return sizes;
}

// One entry of the header, its range made absolute and checked against the file.
absl::StatusOr<SafetensorsTensor> ParseTensor(std::string_view key, dom::element value, uint64_t data_begin,
                                              uint64_t file_size) {
  const string_view name = View(key);
  for (const unsigned char byte : name) {
    if (byte < 0x20 || byte == 0x7F) return TensorError(name, "has a control character in its name");
  }
  const std::optional<dom::object> fields = As<dom::object>(value);
  if (!fields.has_value()) return TensorError(name, absl::StrCat("is ", ValueText(value), ", wanted an object"));
  std::optional<dom::element> dtype, shape, offsets;
  for (const dom::key_value_pair field : *fields) {
    if (field.key == "dtype") dtype = field.value;
    if (field.key == "shape") shape = field.value;
    if (field.key == "data_offsets") offsets = field.value;
  }
  if (!dtype.has_value()) return TensorError(name, "lacks the field dtype");
  if (!shape.has_value()) return TensorError(name, "lacks the field shape");
  if (!offsets.has_value()) return TensorError(name, "lacks the field data_offsets");

  SafetensorsTensor tensor;
  tensor.name = std::string(key);
  const std::optional<std::string_view> dtype_name = As<std::string_view>(*dtype);
  if (!dtype_name.has_value())
    return TensorError(name, absl::StrCat("has dtype ", ValueText(*dtype), ", wanted a string"));
  tensor.dtype = std::string(*dtype_name);
  absl::StatusOr<std::vector<uint64_t>> sizes = ParseSizes(name, "shape", *shape);
  if (!sizes.ok()) return sizes.status();
  tensor.shape = *std::move(sizes);
  if (tensor.shape.size() > kMaxRank) return TensorError(name, absl::StrCat("has a rank above ", kMaxRank));

  absl::StatusOr<std::vector<uint64_t>> range = ParseSizes(name, "data_offsets", *offsets);
  if (!range.ok()) return range.status();
  if (range->size() != 2) {
    return TensorError(name, absl::StrCat("has data_offsets ", ValueText(*offsets), ", wanted two integers"));
  }
  const uint64_t begin = (*range)[0];
  const uint64_t end = (*range)[1];
  if (begin > end)
    return TensorError(name, absl::StrCat("has data_offsets [", begin, ", ", end, "]: begin is past end"));
  uint64_t absolute_end = 0;
  if (__builtin_add_overflow(data_begin, end, &absolute_end)) {
    return TensorError(name, absl::StrCat("has data_offsets [", begin, ", ", end, "], past 2^64"));
  }
  if (absolute_end > file_size) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", tensor ", Quoted(name), " needs ",
                                            absolute_end, " (data_offsets [", begin, ", ", end, "])"));
  }
  tensor.begin = data_begin + begin;
  tensor.end = absolute_end;

  const unsigned bits = DtypeBits(tensor.dtype);
  uint64_t total_bits = bits;
  bool overflow = false;
  // The overflow is judged before a later 0 could hide it.
  uint64_t elements = 1;
  for (const uint64_t size : tensor.shape) overflow |= size != 0 && __builtin_mul_overflow(elements, size, &elements);
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end();
  overflow |= __builtin_mul_overflow(elements, uint64_t{bits}, &total_bits);
  if (overflow)
    return TensorError(name, absl::StrCat("has shape ", ShapeText(tensor.shape), ", which passes 2^64 bits"));
  if (bits == 0) return tensor;
  if (empty) total_bits = 0;
  if (total_bits % 8 != 0) {
    return TensorError(name, absl::StrCat("has dtype ", tensor.dtype, " and shape ", ShapeText(tensor.shape),
                                          ", which is no whole number of bytes"));
  }
  if (end - begin != total_bits / 8) {
    return TensorError(name,
                       absl::StrCat("has data_offsets [", begin, ", ", end, "], ", end - begin, " bytes, but dtype ",
                                    tensor.dtype, " and shape ", ShapeText(tensor.shape), " need ", total_bits / 8));
  }
  return tensor;
}

// The ranges must tile the data: what lies in a hole, under two tensors or behind the last one was put there by nobody
// who follows the format.
absl::Status CheckTiling(const std::vector<SafetensorsTensor>& tensors, uint64_t data_begin, uint64_t file_size) {
  uint64_t at = data_begin;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != at) {
      return TensorError(tensor.name, absl::StrCat("begins at byte ", tensor.begin, " of the file, ",
                                                   tensor.begin < at ? "inside the one before, which ends at byte "
                                                                     : "after a hole from byte ",
                                                   at));
    }
    at = tensor.end;
  }
  if (at != file_size) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", but its last tensor at byte ", at, ": ",
                                            file_size - at, " bytes belong to nothing"));
  }
  return absl::OkStatus();
}

std::string TensorText(const SafetensorsTensor& tensor) {
  return absl::StrCat(Quoted(tensor.name, 80), " ", EscapedText(tensor.dtype, 20), " ", ShapeText(tensor.shape));
}

std::string ListText(const std::vector<const SafetensorsTensor*>& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size() && i < kMaxListed; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", TensorText(*tensors[i]));
  }
  if (tensors.size() > kMaxListed) absl::StrAppend(&text, " and ", tensors.size() - kMaxListed, " more");
  return text;
}

// What to list when no tensor was found: those that may be a table, or all if there are none.
std::vector<const SafetensorsTensor*> Candidates(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<const SafetensorsTensor*> fitting, all;
  for (const SafetensorsTensor& tensor : tensors) {
    all.push_back(&tensor);
    if (MayBeTable(tensor)) fitting.push_back(&tensor);
  }
  return fitting.empty() ? all : fitting;
}

// Which of the candidates may be meant when none is named: without those of 8 bits, unless there are no others.
std::vector<const SafetensorsTensor*> WithoutBytesBesideFloats(
    const std::vector<const SafetensorsTensor*>& candidates) {
  std::vector<const SafetensorsTensor*> floats;
  for (const SafetensorsTensor* tensor : candidates) {
    if (MayBeTable(*tensor) && !IsOfBytes(*tensor)) floats.push_back(tensor);
  }
  return floats.empty() ? candidates : floats;
}

}  // namespace

absl::StatusOr<uint64_t> SafetensorsHeaderBytes(string_view head, uint64_t file_size) {
  if (file_size < kSafetensorsLengthBytes || head.size() < kSafetensorsLengthBytes) {
    return absl::DataLossError(
        absl::StrCat("file ends at byte ", file_size, ", the length of a safetensors header needs 8"));
  }
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  if (length > kMaxSafetensorsHeaderBytes) {
    return HeaderError(absl::StrCat("claims ", length, " bytes, the limit is ", kMaxSafetensorsHeaderBytes));
  }
  if (length > file_size - kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", its safetensors header needs ",
                                            kSafetensorsLengthBytes + length));
  }
  return length;
}

bool MayBeTable(const SafetensorsTensor& tensor) {
  return tensor.shape.size() == 2 && DtypeFromName(tensor.dtype).has_value();
}

bool IsOfBytes(const SafetensorsTensor& tensor) { return DtypeSize(*DtypeFromName(tensor.dtype)) == 1; }

absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensorsHeader(std::string header, uint64_t file_size,
                                                                      SafetensorsMetadata* metadata) {
  const size_t length = header.size();
  if (file_size < kSafetensorsLengthBytes || length > file_size - kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", its safetensors header needs ",
                                            kSafetensorsLengthBytes + length));
  }
  const uint64_t data_begin = kSafetensorsLengthBytes + length;
  const size_t first = header.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || header[first] != '{') {
    const string_view found = string_view(header).substr(first == std::string::npos ? 0 : first, 20);
    return HeaderError(absl::StrCat("begins with ", Quoted(found), ", wanted a JSON object"));
  }
  if (const size_t at = FindNegativeZero(header); at != string_view::npos) {
    return HeaderError(absl::StrCat("holds the number -0 at its byte ", at));
  }

  header.resize(length + simdjson::SIMDJSON_PADDING);
  dom::parser parser;
  if (const simdjson::error_code error = parser.allocate(length, kMaxDepth); error != simdjson::SUCCESS) {
    return HeaderError(absl::StrCat("cannot be parsed: ", simdjson::error_message(error)));
  }
  dom::element root;
  if (const simdjson::error_code error = parser.parse(header.data(), length, false).get(root);
      error != simdjson::SUCCESS) {
    return HeaderError(absl::StrCat("is no JSON that is read here: ", simdjson::error_message(error)));
  }
  const std::optional<dom::object> object = As<dom::object>(root);
  if (!object.has_value()) return HeaderError("is no JSON object");
  if (const std::optional<std::string_view> twice = DuplicateKey(root)) {
    return HeaderError(absl::StrCat("holds the key ", Quoted(View(*twice)), " twice"));
  }

  std::vector<SafetensorsTensor> tensors;
  for (const dom::key_value_pair field : *object) {
    if (field.key == "__metadata__") {
      if (absl::Status status = ParseMetadata(field.value, metadata); !status.ok()) return status;
      continue;
    }
    absl::StatusOr<SafetensorsTensor> tensor = ParseTensor(field.key, field.value, data_begin, file_size);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  if (absl::Status status = CheckTiling(tensors, data_begin, file_size); !status.ok()) return status;
  return tensors;
}

absl::StatusOr<SafetensorsContent> ReadSafetensorsHeader(const SourceFile& file) {
  std::string head(std::min(file.size(), kSafetensorsLengthBytes), '\0');
  if (absl::Status status = file.ReadAt(0, head.size(), head.data()); !status.ok()) return status;
  absl::StatusOr<uint64_t> length = SafetensorsHeaderBytes(head, file.size());
  if (!length.ok()) return length.status();
  std::string header(*length, '\0');
  if (absl::Status status = file.ReadAt(kSafetensorsLengthBytes, header.size(), header.data()); !status.ok()) {
    return status;
  }
  SafetensorsContent content;
  absl::StatusOr<std::vector<SafetensorsTensor>> tensors =
      ParseSafetensorsHeader(std::move(header), file.size(), &content.metadata);
  if (!tensors.ok()) return tensors.status();
  content.tensors = *std::move(tensors);
  return content;
}

absl::StatusOr<size_t> FindTable(const std::vector<SafetensorsTensor>& tensors, string_view name) {
  const std::vector<const SafetensorsTensor*> candidates = Candidates(tensors);
  const SafetensorsTensor* table = nullptr;
  if (!name.empty()) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const SafetensorsTensor& t) { return t.name == name; });
    if (found == tensors.end()) {
      return absl::DataLossError(absl::StrCat("file has no tensor ", Quoted(name),
                                              candidates.empty() ? ": it has none at all" : ", it has ",
                                              ListText(candidates)));
    }
    table = &*found;
    if (!DtypeFromName(table->dtype).has_value()) {
      return TensorError(name, absl::StrCat("has dtype ", EscapedText(table->dtype, 40), ", served are ", kDtypeNames));
    }
    if (table->shape.size() != 2) {
      return TensorError(name, absl::StrCat("has rank ", table->shape.size(), ", shape ", ShapeText(table->shape),
                                            ", a table has rank 2"));
    }
  } else {
    if (candidates.empty()) return absl::DataLossError("file has no tensors");
    if (!MayBeTable(*candidates.front())) {
      return absl::DataLossError(
          absl::StrCat("file has no 2-D tensor of ", kDtypeNames, ", it has ", ListText(candidates)));
    }
    const std::vector<const SafetensorsTensor*> meant = WithoutBytesBesideFloats(candidates);
    if (meant.size() > 1) {
      return absl::DataLossError(absl::StrCat(
          "file has ", meant.size(), " 2-D tensors that may be the table, name one with tensor=: ", ListText(meant)));
    }
    table = meant.front();
  }
  return static_cast<size_t>(table - tensors.data());
}

absl::StatusOr<RowLayout> TableLayout(const SafetensorsTensor& tensor, const TableLimits& limits) {
  if (absl::Status status = CheckTableSize(tensor.shape[0], tensor.shape[1], limits); !status.ok()) {
    return TensorError(tensor.name, absl::StrCat("is no table that is served: ", status.message()));
  }
  return RowLayout{.dtype = *DtypeFromName(tensor.dtype),
                   .num_rows = static_cast<int64_t>(tensor.shape[0]),
                   .dim = static_cast<int64_t>(tensor.shape[1]),
                   .offset = tensor.begin};
}

absl::StatusOr<RowLayout> SelectTable(const std::vector<SafetensorsTensor>& tensors, string_view name,
                                      const TableLimits& limits) {
  const absl::StatusOr<size_t> found = FindTable(tensors, name);
  if (!found.ok()) return found.status();
  return TableLayout(tensors[*found], limits);
}

}  // namespace embedding
