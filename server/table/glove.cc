#include "server/table/glove.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/exec/mutex.h"
#include "server/table/private_memory.h"
#include "server/table/quote.h"
#include "server/table/row_layout.h"
#include "server/table/text_row.h"
#include "server/table/word2vec.h"

namespace embedding {
namespace {

using absl::string_view;

constexpr uint64_t kStepBytes = uint64_t{64} << 10;

absl::Status LineTooLong(int64_t line) {
  return absl::DataLossError(absl::StrCat("line ", line, " is longer than ", kMaxTextLineBytes, " bytes"));
}

absl::Status LineError(int64_t line, string_view what) {
  // "line 7, field 3 ..." reads better with a comma, "line 7 has ..." without.
  return absl::DataLossError(absl::StrCat("line ", line, absl::StartsWith(what, "field ") ? ", " : " ", what));
}

// The line that begins at byte `begin`, without its \n.
absl::StatusOr<std::string> ReadLine(const SourceFile& file, uint64_t begin, int64_t number) {
  std::string line;
  for (uint64_t at = begin; at < file.size();) {
    const size_t step =
        static_cast<size_t>(std::min({file.size() - at, kStepBytes, kMaxTextLineBytes + 1 - line.size()}));
    if (step == 0) return LineTooLong(number);
    const size_t old_size = line.size();
    line.resize(old_size + step);
    if (absl::Status status = file.ReadAt(at, step, line.data() + old_size); !status.ok()) return status;
    const size_t end = line.find('\n', old_size);
    if (end != std::string::npos) {
      line.resize(end);
      break;
    }
    at += step;
  }
  if (line.size() > kMaxTextLineBytes) return LineTooLong(number);
  return line;
}

// What the first line, or the first two, say of all.
struct Shape {
  uint64_t begin = 0;                // byte of the first row's line
  int64_t first_line = 1;            // its number
  std::optional<uint64_t> num_rows;  // where a header says it
  uint64_t dim = 0;
};

absl::StatusOr<Shape> ReadShape(const SourceFile& file, bool has_header) {
  absl::StatusOr<std::string> line = ReadLine(file, 0, 1);
  if (!line.ok()) return line.status();
  if (absl::StartsWith(*line, "\xEF\xBB\xBF")) {
    return LineError(1, "begins with a byte order mark: save the file as UTF-8 without it");
  }
  Shape shape;
  const std::optional<Word2vecHeader> header = ParseWord2vecHeader(*line, /*is_text=*/true);
  if (has_header) {
    if (!header.has_value()) {
      return absl::DataLossError(absl::StrCat("first line is ", Quoted(*line, 40),
                                              ", a word2vec text file begins with two integers, rows and width"));
    }
    shape.begin = std::min<uint64_t>(line->size() + 1, file.size());
    shape.first_line = 2;
    shape.num_rows = header->num_rows;
    shape.dim = header->dim;
    return shape;
  }
  shape.dim = static_cast<uint64_t>(CountTrailingNumbers(*line));
  if (shape.dim == 0) {
    return absl::DataLossError(
        absl::StrCat("line 1 is ", Quoted(*line, 40), ", a line of GloVe text is a key and numbers, parted by spaces"));
  }
  // A header over rows of one number each would pass for a row.
  if (header.has_value()) {
    absl::StatusOr<std::string> second = ReadLine(file, std::min<uint64_t>(line->size() + 1, file.size()), 2);
    if (!second.ok()) return second.status();
    if (static_cast<uint64_t>(CountTrailingNumbers(*second)) == header->dim && header->dim > 0)
      shape.num_rows = header->num_rows;
  }
  return shape;
}

// Keys of the rows whose lines begin in one chunk.
struct ChunkKeys {
  std::string keys;
  std::vector<uint32_t> sizes;
};

class TextReader {
 public:
  TextReader(const SourceFile& file, const TextRowsOptions& options, const LoadProgress& progress, const Shape& shape)
      : file_(file),
        options_(options),
        progress_(progress),
        begin_(shape.begin),
        first_line_(shape.first_line),
        dim_(static_cast<int64_t>(shape.dim)),
        chunks_(static_cast<size_t>((file.size() - shape.begin + options.chunk_bytes - 1) / options.chunk_bytes)),
        first_rows_(chunks_ + 1),
        keys_(chunks_) {}

  size_t num_chunks() const { return chunks_; }
  int64_t num_rows() const { return first_rows_.back(); }

  // The passes: each lane calls one of them, and after all lanes comes status().
  void CountLines() {
    std::string buffer;
    for (size_t chunk = 0; Next(&chunk);) {
      if (progress_.stopped()) {
        Fail(chunk, absl::CancelledError("the load was stopped"));
        return;
      }
      // A line begins behind each \n, and at the first byte.
      const uint64_t from = ChunkBegin(chunk) - (chunk > 0 ? 1 : 0);
      const uint64_t to = ChunkBegin(chunk + 1) - 1;
      buffer.resize(static_cast<size_t>(to - from));
      if (absl::Status status = file_.ReadAt(from, buffer.size(), buffer.data()); !status.ok()) {
        Fail(chunk, std::move(status));
        return;
      }
      const int64_t lines = std::count(buffer.begin(), buffer.end(), '\n') + (chunk == 0 ? 1 : 0);
      first_rows_[chunk + 1] = lines;
      // Not the rest of a file that holds too many anyhow.
      if (counted_.fetch_add(lines, std::memory_order_relaxed) + lines > options_.limits.max_rows) {
        Fail(chunk, TooManyRows());
        return;
      }
    }
  }

  // Between the passes.
  void SumLines() {
    for (size_t chunk = 0; chunk < chunks_; ++chunk) first_rows_[chunk + 1] += first_rows_[chunk];
    next_chunk_.store(0, std::memory_order_relaxed);
  }

  // rows: [num_rows, dim].
  void ParseLines(float* rows) {
    std::string buffer;
    for (size_t chunk = 0; Next(&chunk);) {
      if (first_rows_[chunk] == first_rows_[chunk + 1]) continue;
      if (absl::Status status = ParseChunk(chunk, rows, &buffer); !status.ok()) {
        Fail(chunk, std::move(status));
        return;
      }
      Report(first_rows_[chunk + 1] - first_rows_[chunk]);
    }
  }

  // That of the first chunk that failed, whichever lane was first: chunks are taken in order, and one that was taken is
  // worked on until its own end.
  absl::Status status() {
    MutexLock lock(&mutex_);
    return error_;
  }

  bool has_words() const { return has_words_.load(std::memory_order_relaxed); }

  // After ParseLines. Frees what it has joined.
  void JoinKeys(KeyedRows* rows) {
    size_t size = 0;
    for (const ChunkKeys& chunk : keys_) size += chunk.keys.size();
    rows->keys.reserve(size);
    rows->key_ends.reserve(static_cast<size_t>(num_rows()) + 1);
    uint64_t end = 0;
    for (ChunkKeys& chunk : keys_) {
      rows->keys += chunk.keys;
      for (const uint32_t key_size : chunk.sizes) rows->key_ends.push_back(end += key_size);
      chunk = {};
    }
  }

 private:
  bool Next(size_t* chunk) {
    if (failed_.load(std::memory_order_relaxed)) return false;
    *chunk = next_chunk_.fetch_add(1, std::memory_order_relaxed);
    return *chunk < chunks_;
  }

  uint64_t ChunkBegin(size_t chunk) const {
    return chunk == chunks_ ? file_.size() : begin_ + chunk * options_.chunk_bytes;
  }

  // The lines that begin in the chunk, the last of which may end far behind it.
  absl::Status ParseChunk(size_t chunk, float* rows, std::string* buffer) {
    if (progress_.stopped()) return absl::CancelledError("the load was stopped");
    const uint64_t from = ChunkBegin(chunk) - (chunk > 0 ? 1 : 0);
    uint64_t to = ChunkBegin(chunk + 1);
    buffer->resize(static_cast<size_t>(to - from));
    if (absl::Status status = file_.ReadAt(from, buffer->size(), buffer->data()); !status.ok()) return status;
    size_t at = chunk > 0 ? buffer->find('\n') + 1 : 0;
    ChunkKeys& keys = keys_[chunk];
    for (int64_t row = first_rows_[chunk]; row < first_rows_[chunk + 1]; ++row) {
      const int64_t line_number = row + first_line_;
      if (at == 0 && chunk > 0) return Changed();
      size_t end = std::min(buffer->find('\n', at), buffer->size());
      while (end == buffer->size() && to < file_.size()) {
        if (end - at > kMaxTextLineBytes) return LineTooLong(line_number);
        const size_t step = static_cast<size_t>(std::min(file_.size() - to, kStepBytes));
        buffer->resize(end + step);
        if (absl::Status status = file_.ReadAt(to, step, buffer->data() + end); !status.ok()) return status;
        to += step;
        end = std::min(buffer->find('\n', end), buffer->size());
      }
      if (at >= buffer->size()) return Changed();
      if (end - at > kMaxTextLineBytes) return LineTooLong(line_number);
      const string_view line(buffer->data() + at, end - at);
      if (absl::Status status = ParseLine(line, line_number, rows + row * dim_, &keys); !status.ok()) return status;
      at = end + 1;
    }
    return absl::OkStatus();
  }

  absl::Status ParseLine(string_view line, int64_t number, float* vector, ChunkKeys* keys) {
    string_view key;
    if (absl::Status status = ParseTextRow(line, dim_, options_.allow_non_finite, vector, &key); !status.ok()) {
      // Where the width is that of the first line, and is what is wrong.
      const bool by_width = first_line_ == 1 && absl::StrContains(status.message(), "wanted a key and");
      return LineError(number, absl::StrCat(status.message(), by_width ? ", as line 1 has" : ""));
    }
    const std::string fault = KeyFault(key);
    if (!fault.empty() && (!options_.keys.skip_invalid || key.size() > kMaxKeyBytes)) return LineError(number, fault);
    if (!fault.empty()) key = {};
    keys->keys.append(key.data(), key.size());
    keys->sizes.push_back(static_cast<uint32_t>(key.size()));
    // Integers may be ids; fractions in the place of every key are a first column.
    if (!has_words() && (key.find('.') == string_view::npos || !IsNumber(key))) {
      has_words_.store(true, std::memory_order_relaxed);
    }
    return absl::OkStatus();
  }

  absl::Status TooManyRows() const {
    return absl::DataLossError(absl::StrCat("table has more than ", options_.limits.max_rows, " rows of width ", dim_,
                                            ", allowed are 1..", options_.limits.max_rows, " rows (--max-rows)"));
  }

  // Fewer lines than in the first pass.
  absl::Status Changed() const {
    return absl::DataLossError("changed while being read: it has fewer lines than before");
  }

  void Fail(size_t chunk, absl::Status status) {
    failed_.store(true, std::memory_order_relaxed);
    MutexLock lock(&mutex_);
    if (!error_.ok() && error_chunk_ < chunk) return;
    error_ = std::move(status);
    error_chunk_ = chunk;
  }

  void Report(int64_t rows) {
    MutexLock lock(&mutex_);
    done_rows_ += rows;
    const int64_t row_bytes = dim_ * static_cast<int64_t>(sizeof(float));
    if (progress_) progress_(done_rows_ * row_bytes, num_rows() * row_bytes);
  }

  const SourceFile& file_;
  const TextRowsOptions& options_;
  const LoadProgress& progress_;
  const uint64_t begin_;
  const int64_t first_line_;
  const int64_t dim_;
  const size_t chunks_;
  // Row of the first line that begins in a chunk, or after it; until SumLines, the count of the chunk before. Each is
  // written by the lane that took the chunk.
  std::vector<int64_t> first_rows_;
  std::vector<ChunkKeys> keys_;  // likewise
  std::atomic<size_t> next_chunk_{0};
  std::atomic<int64_t> counted_{0};  // lines, by all lanes
  std::atomic<bool> failed_{false};
  std::atomic<bool> has_words_{false};
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  size_t error_chunk_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t done_rows_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Before memory is taken: each line has a key, or at least the blank behind it, and dim numbers of a digit and a blank.
// What is little memory is taken at once, so that the line which is too short can be named.
absl::Status CheckLinesFit(uint64_t num_rows, uint64_t dim, uint64_t bytes) {
  constexpr uint64_t kLittle = uint64_t{1} << 16;
  if (num_rows <= kLittle / dim) return absl::OkStatus();
  const uint64_t per_line = 2 * dim;
  if (num_rows <= (bytes + 1) / (per_line + 1)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("file has ", num_rows, " lines, which need ", per_line,
                                          " bytes at least for a key and ", dim, " numbers each, but it has ", bytes,
                                          " bytes for them"));
}

}  // namespace

absl::StatusOr<KeyedRows> ReadTextRows(const SourceFile& file, const TextRowsOptions& options, WorkerPool& pool,
                                       const LoadProgress& progress) {
  if (file.size() == 0) return absl::DataLossError("file ends at byte 0: it is empty");
  absl::StatusOr<Shape> shape = ReadShape(file, options.has_header);
  if (!shape.ok()) return shape.status();
  // What the first line tells is judged before the rest is read.
  const uint64_t told_rows = options.has_header ? shape->num_rows.value_or(1) : 1;  // else it may be a row all the same
  if (absl::Status status = CheckTableSize(told_rows, shape->dim, options.limits); !status.ok()) {
    return status;
  }
  TextReader reader(file, options, progress, *shape);
  const int lanes = static_cast<int>(
      std::min<uint64_t>(std::max<size_t>(reader.num_chunks(), 1), static_cast<uint64_t>(pool.num_threads())));
  pool.RunAndWait(lanes, [&](int) { reader.CountLines(); });
  if (absl::Status status = reader.status(); !status.ok()) return status;
  reader.SumLines();

  const uint64_t num_rows = static_cast<uint64_t>(reader.num_rows());
  if (options.has_header && num_rows != *shape->num_rows) {
    return absl::DataLossError(
        absl::StrCat("first line says ", *shape->num_rows, " rows, ", num_rows, " lines follow it"));
  }
  if (!options.has_header && shape->num_rows.has_value() && *shape->num_rows + 1 == num_rows) {
    return absl::DataLossError(absl::StrCat("line 1 is the header of the ", *shape->num_rows,
                                            " lines below it: the file is word2vec text, not GloVe's"));
  }
  if (absl::Status status = CheckTableSize(num_rows, shape->dim, options.limits); !status.ok()) return status;
  if (absl::Status status = CheckLinesFit(num_rows, shape->dim, file.size() - shape->begin); !status.ok())
    return status;

  KeyedRows rows;
  rows.num_rows = static_cast<int64_t>(num_rows);
  rows.dim = static_cast<int64_t>(shape->dim);
  absl::StatusOr<std::shared_ptr<std::byte>> memory = AllocatePrivate(num_rows * shape->dim * sizeof(float));
  if (!memory.ok()) return memory.status();
  rows.rows = *std::move(memory);
  float* values = reinterpret_cast<float*>(rows.rows.get());
  pool.RunAndWait(lanes, [&](int) { reader.ParseLines(values); });
  if (absl::Status status = reader.status(); !status.ok()) return status;
  if (!reader.has_words()) {
    return absl::DataLossError(
        "every line begins with a decimal fraction where its key should be: the file holds numbers "
        "without keys (numpy.save writes them as .npy)");
  }
  reader.JoinKeys(&rows);
  return rows;
}

}  // namespace embedding
