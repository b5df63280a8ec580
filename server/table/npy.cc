#include "server/table/npy.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/table/quote.h"

namespace embedding {
namespace {

using absl::string_view;

constexpr size_t kMaxRank = 32;  // NumPy's own limit

struct NpyHeader {
  std::optional<string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;
};

// The part of Python's literals that numpy.save writes:
//   header = "{" [ entry { "," entry } [ "," ] ] "}" blanks
//   entry  = string ":" ( string | "True" | "False" | tuple )
//   tuple  = "(" ")" | "(" number "," ")" | "(" number "," number { "," number } [ "," ] ")"
//   number = digits [ "L" ]
class HeaderParser {
 public:
  explicit HeaderParser(string_view text) : text_(text) {}

  absl::StatusOr<NpyHeader> Parse() {
    if (!Take('{')) return Unexpected("\"{\"");
    NpyHeader header;
    if (!Take('}')) {
      do {
        if (Take('}')) return AtEnd(std::move(header));
        if (absl::Status status = ParseEntry(&header); !status.ok()) return status;
      } while (Take(','));
      if (!Take('}')) return Unexpected("\",\" or \"}\"");
    }
    return AtEnd(std::move(header));
  }

 private:
  static bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  }

  bool Take(char c) {
    SkipBlanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool TakeWord(string_view word) {
    SkipBlanks();
    if (!absl::StartsWith(text_.substr(at_), word)) return false;
    at_ += word.size();
    return true;
  }

  absl::Status Unexpected(string_view wanted) const {
    if (at_ >= text_.size()) {
      return absl::DataLossError(absl::StrCat("npy header ends at its byte ", at_, ", wanted ", wanted));
    }
    return absl::DataLossError(
        absl::StrCat("npy header has ", Quoted(text_.substr(at_, 20)), " at its byte ", at_, ", wanted ", wanted));
  }

  absl::StatusOr<NpyHeader> AtEnd(NpyHeader header) {
    SkipBlanks();
    if (at_ < text_.size()) return Unexpected("its end");
    return header;
  }

  absl::StatusOr<string_view> ParseString() {
    SkipBlanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return Unexpected("a string");
    const size_t begin = at_ + 1;
    const size_t end = text_.find(text_[at_], begin);
    if (end == string_view::npos) return Unexpected("a string that ends");
    const string_view value = text_.substr(begin, end - begin);
    if (value.find('\\') != string_view::npos) return Unexpected("a string without escapes");
    at_ = end + 1;
    return value;
  }

  absl::StatusOr<uint64_t> ParseNumber() {
    SkipBlanks();
    const size_t begin = at_;
    uint64_t value = 0;
    while (at_ < text_.size() && IsDigit(text_[at_])) {
      if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<uint64_t>(text_[at_] - '0'), &value)) {
        at_ = begin;
        return Unexpected("a number below 2^64");
      }
      ++at_;
    }
    if (at_ == begin) return Unexpected("a number");
    if (at_ - begin > 1 && text_[begin] == '0') {
      at_ = begin;
      return Unexpected("a number without leading zeros");
    }
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
    return value;
  }

  absl::StatusOr<std::vector<uint64_t>> ParseTuple() {
    if (!Take('(')) return Unexpected("a tuple");
    std::vector<uint64_t> values;
    if (Take(')')) return values;
    for (;;) {
      absl::StatusOr<uint64_t> value = ParseNumber();
      if (!value.ok()) return value.status();
      if (values.size() == kMaxRank) {
        return absl::DataLossError(absl::StrCat("npy shape has more than ", kMaxRank, " dimensions"));
      }
      values.push_back(*value);
      if (Take(',')) {
        if (Take(')')) return values;
      } else if (Take(')')) {
        // (3) is a number in parentheses, (3,) a tuple.
        if (values.size() == 1) {
          return absl::DataLossError(
              absl::StrCat("npy shape (", values[0], ") is no tuple, wanted (", values[0], ",)"));
        }
        return values;
      } else {
        return Unexpected("\",\" or \")\"");
      }
    }
  }

  absl::Status ParseEntry(NpyHeader* header) {
    absl::StatusOr<string_view> key = ParseString();
    if (!key.ok()) return key.status();
    if (!Take(':')) return Unexpected("\":\"");
    const auto twice = [&] { return absl::DataLossError(absl::StrCat("npy header names ", Quoted(*key), " twice")); };
    if (*key == "descr") {
      if (header->descr.has_value()) return twice();
      SkipBlanks();
      if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(')) {
        return absl::DataLossError("npy array has a structured dtype, wanted plain numbers");
      }
      absl::StatusOr<string_view> value = ParseString();
      if (!value.ok()) return value.status();
      header->descr = *value;
    } else if (*key == "fortran_order") {
      if (header->fortran_order.has_value()) return twice();
      if (TakeWord("True")) {
        header->fortran_order = true;
      } else if (TakeWord("False")) {
        header->fortran_order = false;
      } else {
        return Unexpected("True or False");
      }
    } else if (*key == "shape") {
      if (header->shape.has_value()) return twice();
      absl::StatusOr<std::vector<uint64_t>> value = ParseTuple();
      if (!value.ok()) return value.status();
      header->shape = *std::move(value);
    } else {
      return absl::DataLossError(
          absl::StrCat("npy header has the key ", Quoted(*key), ", allowed are descr, fortran_order, shape"));
    }
    return absl::OkStatus();
  }

  string_view text_;
  size_t at_ = 0;
};

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

absl::Status SetDtype(string_view descr, RowLayout* layout) {
  if (descr.find('O') != string_view::npos) {
    return absl::DataLossError(absl::StrCat("npy dtype is ", Quoted(descr),
                                            ": Python objects (a pickle), which are never executed; wanted numbers"));
  }
  const string_view type = descr.empty() ? descr : descr.substr(1);
  const std::optional<Dtype> dtype = type == "f4"   ? std::optional(Dtype::kF32)
                                     : type == "f2" ? std::optional(Dtype::kF16)
                                     : type == "f8" ? std::optional(Dtype::kF64)
                                     : type == "i1" ? std::optional(Dtype::kI8)
                                     : type == "u1" ? std::optional(Dtype::kU8)
                                                    : std::nullopt;
  // Single bytes have no order, which NumPy writes as "|".
  const bool right_order =
      dtype.has_value() && (DtypeSize(*dtype) == 1 ? descr[0] == '|' : descr[0] == '<' || descr[0] == '>');
  if (!right_order) {
    // Types of ml_dtypes lose their names in numpy.save.
    const string_view hint = type == "V2"   ? " (as bfloat16 is saved: use safetensors)"
                             : type == "V1" ? " (as 8-bit floats are saved: use safetensors)"
                                            : "";
    return absl::DataLossError(
        absl::StrCat("npy dtype is ", Quoted(descr), hint,
                     ", served are \"<f4\", \"<f2\", \"<f8\", the same with \">\", \"|i1\" and \"|u1\""));
  }
  layout->dtype = *dtype;
  layout->big_endian = descr[0] == '>';
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RowLayout> ParseNpy(string_view head, uint64_t file_size, const TableLimits& limits) {
  constexpr string_view kMagic = "\x93NUMPY";
  const auto ends = [&](uint64_t needed) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file_size, ", an npy header needs ", needed));
  };
  if (head.substr(0, kMagic.size()) != kMagic.substr(0, head.size())) {
    return absl::DataLossError(absl::StrCat("file begins with ", Quoted(head.substr(0, kMagic.size())),
                                            ", wanted the npy magic \"\\x93NUMPY\""));
  }
  if (head.size() < 8) return ends(10);
  const unsigned major = static_cast<unsigned char>(head[6]);
  const unsigned minor = static_cast<unsigned char>(head[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return absl::DataLossError(absl::StrCat("npy version is ", major, ".", minor, ", read are 1.0, 2.0 and 3.0"));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t header_begin = 8 + length_bytes;
  if (head.size() < header_begin) return ends(header_begin);
  uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, head.data() + 8, length_bytes);
  if (header_bytes > kMaxNpyHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("npy header claims ", header_bytes, " bytes, the limit is ", kMaxNpyHeaderBytes));
  }
  if (head.size() - header_begin < header_bytes) return ends(header_begin + header_bytes);

  absl::StatusOr<NpyHeader> header = HeaderParser(head.substr(header_begin, header_bytes)).Parse();
  if (!header.ok()) return header.status();
  const string_view missing = !header->descr.has_value()           ? "descr"
                              : !header->fortran_order.has_value() ? "fortran_order"
                              : !header->shape.has_value()         ? "shape"
                                                                   : "";
  if (!missing.empty()) return absl::DataLossError(absl::StrCat("npy header lacks the key \"", missing, "\""));

  RowLayout layout;
  layout.offset = header_begin + header_bytes;
  if (absl::Status status = SetDtype(*header->descr, &layout); !status.ok()) return status;
  const std::vector<uint64_t>& shape = *header->shape;
  if (shape.size() != 2) {
    return absl::DataLossError(
        absl::StrCat("npy array has rank ", shape.size(), ", shape ", ShapeText(shape), ", a table has rank 2"));
  }
  if (*header->fortran_order) {
    return absl::DataLossError("npy array is in Fortran order, wanted C order: save numpy.ascontiguousarray(table)");
  }
  uint64_t bytes = 0;
  uint64_t end = 0;
  if (!RowBytesInFile(shape[0], shape[1], layout.dtype, &bytes) || __builtin_add_overflow(layout.offset, bytes, &end)) {
    return absl::DataLossError(absl::StrCat("npy shape ", ShapeText(shape), " passes 2^64 bytes"));
  }
  if (absl::Status status = CheckTableSize(shape[0], shape[1], limits); !status.ok()) return status;
  if (file_size < end) {
    return absl::DataLossError(
        absl::StrCat("file ends at byte ", file_size, ", the npy array of shape ", ShapeText(shape), " needs ", end));
  }
  if (file_size > end) {
    return absl::DataLossError(
        absl::StrCat("file has ", file_size - end, " bytes after the npy array, which ends at byte ", end));
  }
  layout.num_rows = static_cast<int64_t>(shape[0]);
  layout.dim = static_cast<int64_t>(shape[1]);
  return layout;
}

}  // namespace embedding
