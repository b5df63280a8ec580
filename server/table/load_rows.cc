#include "server/table/load_rows.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/exec/mutex.h"
#include "server/table/private_memory.h"
#include "server/table/row_check.h"

namespace embedding {
namespace {

// A block is read in pieces that stay in a core's own cache until they are hashed and scanned.
constexpr size_t kPieceBytes = size_t{256} << 10;

// bytes: count elements of element_size bytes (2, 4 or 8), reversed one by one.
void SwapBytes(std::byte* bytes, size_t count, size_t element_size) {
  const auto swap_all = [&](auto zero, auto swap) {
    for (size_t i = 0; i < count; ++i) {
      auto value = zero;
      std::memcpy(&value, bytes + i * sizeof(value), sizeof(value));
      value = swap(value);
      std::memcpy(bytes + i * sizeof(value), &value, sizeof(value));
    }
  };
  if (element_size == 2) {
    swap_all(uint16_t{0}, [](uint16_t v) { return __builtin_bswap16(v); });
  } else if (element_size == 4) {
    swap_all(uint32_t{0}, [](uint32_t v) { return __builtin_bswap32(v); });
  } else {
    swap_all(uint64_t{0}, [](uint64_t v) { return __builtin_bswap64(v); });
  }
}

// One load: its lanes take blocks of kFingerprintBlockBytes of memory from a counter.
class Loader {
 public:
  // file: null if the rows are there already. observer: may be null.
  Loader(const SourceFile* file, const RowLayout& layout, std::byte* rows, const LoadProgress& progress,
         RowObserver* observer)
      : file_(file),
        layout_(layout),
        dtype_(layout.dtype == Dtype::kF64 ? Dtype::kF32 : layout.dtype),
        element_bytes_(DtypeSize(dtype_)),
        row_bytes_(static_cast<size_t>(layout.dim) * element_bytes_),
        total_bytes_(static_cast<size_t>(layout.num_rows) * row_bytes_),
        rows_(rows),
        progress_(progress),
        observer_(observer),
        digests_((total_bytes_ + kFingerprintBlockBytes - 1) / kFingerprintBlockBytes),
        check_(ElementTypeOf(dtype_), layout.dim) {}

  // Before the first lane.
  void BeginObserver() {
    if (observer_ == nullptr) return;
    Scratch scratch;
    observer_->Begin({dtype_, layout_.num_rows, layout_.dim}, [&](int64_t row, std::byte* to) {
      // Rows far apart take a slow disk seconds; the first lane ends the load.
      if (progress_.stopped()) return absl::CancelledError("the load was stopped");
      return ReadPiece(static_cast<size_t>(row) * row_bytes_, row_bytes_, to, &scratch);
    });
  }

  void RunLane() {
    RowCheck check(ElementTypeOf(dtype_), layout_.dim);
    BlockHasher hasher;
    Scratch scratch;
    // A block once taken is loaded although another one failed: the lowest bad row is named whichever lane was first.
    while (!failed_.load(std::memory_order_relaxed)) {
      const size_t block = next_block_.fetch_add(1, std::memory_order_relaxed);
      if (block >= digests_.size()) break;
      if (progress_.stopped()) {
        Fail(absl::CancelledError("the load was stopped"));
        break;
      }
      if (!LoadBlock(block, &check, &hasher, &scratch)) break;
    }
    MutexLock lock(&mutex_);
    check_.Merge(check);
  }

  // After all lanes have ended.
  absl::StatusOr<LoadedRows> Finish(std::shared_ptr<const std::byte> bytes, bool allow_non_finite) {
    MutexLock lock(&mutex_);
    if (other_width_.has_value()) {
      return absl::DataLossError(OtherWidthText(other_width_->row, other_width_->width, layout_.dim));
    }
    if (!error_.ok()) return error_;
    if (overflow_.has_value()) {
      return absl::DataLossError(
          absl::StrFormat("row %d, column %d is %.9g in F64, beyond the range of F32, to which F64 is narrowed",
                          overflow_->element / layout_.dim, overflow_->element % layout_.dim, overflow_->value));
    }
    CheckRowsAcrossBlocks();
    if (!allow_non_finite) {
      if (absl::Status status = check_.RefuseNonFinite(); !status.ok()) return status;
    }
    return LoadedRows{.bytes = std::move(bytes),
                      .dtype = dtype_,
                      .digests = std::move(digests_),
                      .zero_rows = check_.zero_rows(),
                      .non_finite_rows = check_.TakeNonFiniteRows()};
  }

 private:
  struct Overflow {
    int64_t element = 0;  // row * dim + column
    double value = 0;
  };

  struct OtherWidth {
    uint64_t row = 0;
    int32_t width = 0;
  };

  // Memory that a lane uses again for each piece.
  struct Scratch {
    std::vector<double> doubles;         // F64 before it is narrowed
    std::vector<std::byte> with_widths;  // rows with the width before each
  };

  // False if the file could not be read or is no table: there is no point in going on.
  bool LoadBlock(size_t block, RowCheck* check, BlockHasher* hasher, Scratch* scratch) {
    const size_t begin = block * kFingerprintBlockBytes;
    const size_t end = std::min(total_bytes_, begin + kFingerprintBlockBytes);
    hasher->Reset();
    size_t next_row = (begin + row_bytes_ - 1) / row_bytes_;  // the first that begins in this block
    for (size_t at = begin; at < end;) {
      const size_t piece = std::min(kPieceBytes, end - at);
      if (absl::Status status = ReadPiece(at, piece, rows_ + at, scratch); !status.ok()) {
        Fail(std::move(status));
        return false;
      }
      hasher->Update(rows_ + at, piece);
      at += piece;
      const size_t end_row = at / row_bytes_;
      if (end_row > next_row) {
        ShowRows(next_row, end_row, check);
        next_row = end_row;
      }
    }
    digests_[block] = hasher->Digest();
    Report(end - begin);
    return true;
  }

  void ShowRows(size_t begin, size_t end, RowCheck* check) {
    const std::byte* rows = rows_ + begin * row_bytes_;
    check->Add(rows, static_cast<int64_t>(begin), static_cast<int64_t>(end - begin));
    if (observer_ != nullptr) observer_->Add(rows, static_cast<int64_t>(begin), static_cast<int64_t>(end - begin));
  }

  // Fills `memory` with what memory bytes [at, at + size) hold after the load. Pieces begin and end between elements.
  absl::Status ReadPiece(size_t at, size_t size, std::byte* memory, Scratch* scratch) {
    if (file_ == nullptr) {
      if (memory != rows_ + at) std::memcpy(memory, rows_ + at, size);
      return absl::OkStatus();
    }
    if (layout_.has_row_widths) return ReadRowsWithWidths(at, size, memory, &scratch->with_widths);
    const size_t count = size / element_bytes_;
    const size_t file_element_bytes = DtypeSize(layout_.dtype);
    const uint64_t offset = layout_.offset + at / element_bytes_ * file_element_bytes;
    std::byte* to = memory;
    if (layout_.dtype == Dtype::kF64) {
      scratch->doubles.resize(count);
      to = reinterpret_cast<std::byte*>(scratch->doubles.data());
    }
    if (absl::Status status = file_->ReadAt(offset, count * file_element_bytes, to); !status.ok()) return status;
    if (layout_.big_endian) SwapBytes(to, count, file_element_bytes);
    if (layout_.dtype == Dtype::kF64) {
      const size_t first = NarrowF64ToF32(scratch->doubles.data(), count, reinterpret_cast<float*>(memory));
      if (first < count) NoteOverflow(static_cast<int64_t>(at / element_bytes_ + first), scratch->doubles[first]);
    }
    return absl::OkStatus();
  }

  // Where byte `at` of the memory lies in a file whose rows are preceded by their widths.
  uint64_t InFileWithWidths(size_t at) const {
    return layout_.offset + at / row_bytes_ * (row_bytes_ + kVecsWidthBytes) + kVecsWidthBytes + at % row_bytes_;
  }

  // As ReadPiece. The width of a row is read with the row's first byte, so no piece leaves one out.
  absl::Status ReadRowsWithWidths(size_t at, size_t size, std::byte* memory, std::vector<std::byte>* with_widths) {
    const bool begins_a_row = at % row_bytes_ == 0;
    const uint64_t begin = InFileWithWidths(at) - (begins_a_row ? kVecsWidthBytes : 0);
    with_widths->resize(InFileWithWidths(at + size - 1) + 1 - begin);
    if (absl::Status status = file_->ReadAt(begin, with_widths->size(), with_widths->data()); !status.ok()) {
      return status;
    }
    const std::byte* from = with_widths->data();
    for (const size_t end = at + size; at < end;) {
      if (at % row_bytes_ == 0) {
        int32_t width = 0;
        std::memcpy(&width, from, sizeof(width));
        from += kVecsWidthBytes;
        if (width != layout_.dim) return NoteOtherWidth(at / row_bytes_, width);
      }
      const size_t count = std::min(end - at, row_bytes_ - at % row_bytes_);
      std::memcpy(memory, from, count);
      memory += count;
      from += count;
      at += count;
    }
    return absl::OkStatus();
  }

  // Rows that begin in one block and end in another were nobody's so far.
  void CheckRowsAcrossBlocks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t last_checked = SIZE_MAX;
    for (size_t boundary = kFingerprintBlockBytes; boundary < total_bytes_; boundary += kFingerprintBlockBytes) {
      const size_t row = boundary / row_bytes_;
      if (row * row_bytes_ == boundary || row == last_checked) continue;
      ShowRows(row, row + 1, &check_);
      last_checked = row;
    }
  }

  void Fail(absl::Status status) {
    failed_.store(true, std::memory_order_relaxed);
    MutexLock lock(&mutex_);
    if (error_.ok()) error_ = std::move(status);
  }

  // The lowest wins, so that the message does not depend on which lane was first.
  void NoteOverflow(int64_t element, double value) {
    MutexLock lock(&mutex_);
    if (!overflow_.has_value() || element < overflow_->element) overflow_ = Overflow{element, value};
  }

  absl::Status NoteOtherWidth(uint64_t row, int32_t width) {
    MutexLock lock(&mutex_);
    if (!other_width_.has_value() || row < other_width_->row) other_width_ = OtherWidth{row, width};
    return absl::DataLossError("a row has another width");  // Finish names the first one
  }

  void Report(size_t bytes) {
    MutexLock lock(&mutex_);
    done_bytes_ += static_cast<int64_t>(bytes);
    if (progress_) progress_(done_bytes_, static_cast<int64_t>(total_bytes_));
  }

  const SourceFile* const file_;
  const RowLayout layout_;
  const Dtype dtype_;  // in memory
  const size_t element_bytes_;
  const size_t row_bytes_;
  const size_t total_bytes_;
  std::byte* const rows_;
  const LoadProgress& progress_;
  RowObserver* const observer_;
  std::vector<BlockDigest> digests_;  // each written by the lane that took the block
  std::atomic<size_t> next_block_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  RowCheck check_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::optional<Overflow> overflow_ ABSL_GUARDED_BY(mutex_);
  std::optional<OtherWidth> other_width_ ABSL_GUARDED_BY(mutex_);
  int64_t done_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Runs the loader over `bytes` bytes of rows.
void RunLoader(Loader& loader, uint64_t bytes, WorkerPool& pool) {
  const uint64_t blocks = (bytes + kFingerprintBlockBytes - 1) / kFingerprintBlockBytes;
  const int lanes = static_cast<int>(std::min<uint64_t>(blocks, static_cast<uint64_t>(pool.num_threads())));
  loader.BeginObserver();
  pool.RunAndWait(lanes, [&](int) { loader.RunLane(); });
}

}  // namespace

absl::StatusOr<LoadedRows> LoadRows(const SourceFile& file, const RowLayout& layout, bool allow_non_finite,
                                    WorkerPool& pool, const LoadProgress& progress, RowObserver* observer) {
  assert(layout.num_rows >= 1 && layout.dim >= 1);
  uint64_t file_bytes = 0;
  if (!RowBytesInFile(static_cast<uint64_t>(layout.num_rows), static_cast<uint64_t>(layout.dim), layout.dtype,
                      &file_bytes) ||
      (layout.has_row_widths &&
       __builtin_add_overflow(file_bytes, kVecsWidthBytes * static_cast<uint64_t>(layout.num_rows), &file_bytes)) ||
      layout.offset > file.size() || file_bytes > file.size() - layout.offset) {
    return absl::DataLossError(absl::StrCat("file ends at byte ", file.size(), ", its rows begin at byte ",
                                            layout.offset, " and need ", file_bytes));
  }
  const size_t memory_element_bytes = layout.dtype == Dtype::kF64 ? sizeof(float) : DtypeSize(layout.dtype);
  const uint64_t memory_bytes =
      static_cast<uint64_t>(layout.num_rows) * static_cast<uint64_t>(layout.dim) * memory_element_bytes;
  absl::StatusOr<std::shared_ptr<std::byte>> memory = AllocatePrivate(memory_bytes);
  if (!memory.ok()) return memory.status();
  Loader loader(&file, layout, memory->get(), progress, observer);
  RunLoader(loader, memory_bytes, pool);
  return loader.Finish(*std::move(memory), allow_non_finite);
}

absl::StatusOr<LoadedRows> ScanRows(std::shared_ptr<std::byte> rows, Dtype dtype, int64_t num_rows, int64_t dim,
                                    bool allow_non_finite, WorkerPool& pool, RowObserver* observer) {
  assert(dtype != Dtype::kF64);
  const RowLayout layout = {.dtype = dtype, .num_rows = num_rows, .dim = dim};
  const LoadProgress none;
  Loader loader(nullptr, layout, rows.get(), none, observer);
  RunLoader(loader, static_cast<uint64_t>(num_rows * dim) * DtypeSize(dtype), pool);
  return loader.Finish(std::move(rows), allow_non_finite);
}

}  // namespace embedding
