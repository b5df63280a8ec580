#include "server/table/word2vec.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/table/private_memory.h"
#include "server/table/quote.h"
#include "server/table/row_layout.h"

namespace embedding {
namespace {

using absl::string_view;

// Two numbers of 20 digits, a space and some slack.
constexpr size_t kMaxHeaderBytes = 64;
constexpr size_t kWindowBytes = size_t{4} << 20;

// The bytes of a file from front to back, some at a time.
class Window {
 public:
  Window(const SourceFile& file, uint64_t begin) : file_(file), next_(begin) {}

  // Where in the file the bytes not yet taken begin.
  uint64_t at() const { return next_ - (end_ - begin_); }
  uint64_t left() const { return file_.size() - at(); }
  string_view bytes() const { return string_view(buffer_.data() + begin_, end_ - begin_); }
  void Take(size_t count) { begin_ += count; }

  // Makes bytes() at least `count` long, or as long as the rest of the file.
  absl::Status Fill(size_t count) {
    if (end_ - begin_ >= count || next_ == file_.size()) return absl::OkStatus();
    if (buffer_.empty()) {
      buffer_.resize(std::max(static_cast<size_t>(std::min<uint64_t>(kWindowBytes, file_.size())), count));
    }
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() < count) buffer_.resize(count);
    const size_t more = static_cast<size_t>(std::min<uint64_t>(buffer_.size() - end_, file_.size() - next_));
    if (absl::Status status = file_.ReadAt(next_, more, buffer_.data() + end_); !status.ok()) return status;
    end_ += more;
    next_ += more;
    return absl::OkStatus();
  }

  // Moves `count` bytes out, of which so many must be left.
  absl::Status Copy(size_t count, std::byte* to) {
    if (absl::Status status = Fill(count); !status.ok()) return status;
    std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return absl::OkStatus();
  }

 private:
  const SourceFile& file_;
  uint64_t next_;  // the byte of the file that follows the window
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

absl::Status RowError(int64_t row, uint64_t at, string_view what) {
  return absl::DataLossError(absl::StrCat("row ", row, " at byte ", at, " ", what));
}

}  // namespace

std::optional<Word2vecHeader> ParseWord2vecHeader(string_view line, bool is_text) {
  if (is_text) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  }
  Word2vecHeader header;
  const char* const end = line.data() + line.size();
  const auto rows = std::from_chars(line.data(), end, header.num_rows);
  if (rows.ec != std::errc() || rows.ptr == end || *rows.ptr != ' ') return std::nullopt;
  const auto dim = std::from_chars(rows.ptr + 1, end, header.dim);
  if (dim.ec != std::errc() || dim.ptr != end) return std::nullopt;
  return header;
}

absl::StatusOr<KeyedRows> ReadWord2vec(const SourceFile& file, const TableLimits& limits, KeyPolicy policy,
                                       const LoadProgress& progress) {
  Window window(file, 0);
  if (absl::Status status = window.Fill(kMaxHeaderBytes); !status.ok()) return status;
  const string_view head = window.bytes().substr(0, kMaxHeaderBytes);
  const size_t line_end = head.find('\n');
  const string_view line = head.substr(0, line_end);
  const std::optional<Word2vecHeader> header = ParseWord2vecHeader(line, /*is_text=*/false);
  if (!header.has_value() || line_end == string_view::npos) {
    return absl::DataLossError(absl::StrCat("first line is ", Quoted(line, 40), ", a word2vec file begins with two ",
                                            "numbers, rows and width, and a line end"));
  }
  if (absl::Status status = CheckTableSize(header->num_rows, header->dim, limits); !status.ok()) return status;
  window.Take(line_end + 1);

  KeyedRows rows;
  rows.num_rows = static_cast<int64_t>(header->num_rows);
  rows.dim = static_cast<int64_t>(header->dim);
  const size_t row_bytes = static_cast<size_t>(header->dim) * sizeof(float);
  // A key has one byte at least, and a space ends it.
  uint64_t least = 0;
  if (__builtin_mul_overflow(header->num_rows, uint64_t{row_bytes + 2}, &least) || least > window.left()) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file.size(), ", its first line says ", rows.num_rows,
                                            " rows of width ", rows.dim, ", which need ", line_end + 1 + least,
                                            " at least"));
  }
  const uint64_t total = header->num_rows * row_bytes;
  absl::StatusOr<std::shared_ptr<std::byte>> memory = AllocatePrivate(total);
  if (!memory.ok()) return memory.status();
  rows.rows = *std::move(memory);
  rows.key_ends.reserve(static_cast<size_t>(header->num_rows) + 1);

  uint64_t reported = 0;
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    if (absl::Status status = window.Fill(kMaxKeyBytes + 2); !status.ok()) return status;
    if (!window.bytes().empty() && window.bytes()[0] == '\n') window.Take(1);
    const uint64_t at = window.at();
    const string_view searched = window.bytes().substr(0, kMaxKeyBytes + 1);
    const size_t key_size = searched.find(' ');
    if (key_size == string_view::npos) {
      if (searched.size() > kMaxKeyBytes) {
        return RowError(
            row, at,
            absl::StrCat("has no space after a key of at most ", kMaxKeyBytes, " bytes: ", Quoted(searched, 40)));
      }
      return absl::DataLossError(
          absl::StrCat("file ends at byte ", file.size(), ", in the key of row ", row, " of ", rows.num_rows));
    }
    const string_view key = searched.substr(0, key_size);
    const std::string fault = KeyFault(key);
    if (!fault.empty() && !policy.skip_invalid) return RowError(row, at, fault);
    if (fault.empty()) rows.keys.append(key.data(), key.size());
    rows.key_ends.push_back(rows.keys.size());
    window.Take(key_size + 1);
    if (window.left() < row_bytes) {
      return absl::DataLossError(absl::StrCat("file ends at byte ", file.size(), ", row ", row, " of ", rows.num_rows,
                                              " needs ", window.at() + row_bytes));
    }
    const uint64_t done = static_cast<uint64_t>(row) * row_bytes;
    if (absl::Status status = window.Copy(row_bytes, rows.rows.get() + done); !status.ok()) return status;
    if (done + row_bytes - reported >= kWindowBytes || row + 1 == rows.num_rows) {
      if (progress.stopped()) return absl::CancelledError("the load was stopped");
      reported = done + row_bytes;
      if (progress) progress(static_cast<int64_t>(reported), static_cast<int64_t>(total));
    }
  }
  if (absl::Status status = window.Fill(1); !status.ok()) return status;
  if (!window.bytes().empty() && window.bytes()[0] == '\n') window.Take(1);
  if (window.left() > 0) {
    return absl::DataLossError(absl::StrCat("file has ", window.left(), " bytes after the last of the ", rows.num_rows,
                                            " rows of width ", rows.dim, " that its first line says"));
  }
  return rows;
}

}  // namespace embedding
