// Tables written as files: what `convert` makes.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/table/embedding_table.h"

namespace embedding::cli {

// How a table is written.
enum class FileFormat { kSafetensors, kNpy, kFbin };

// By the extension; nullopt for any other than .safetensors, .npy and .fbin.
std::optional<FileFormat> FileFormatOf(absl::string_view path);

// INVALID_ARGUMENT if files of the format cannot hold elements of this dtype; the message names --dtype F32. .npy: F32,
// F16, I8, U8. .fbin: F32. safetensors: all.
absl::Status CheckHolds(FileFormat format, Dtype dtype);

// What comes before the rows, in the very bytes that the format's own library writes: safetensors 0.5.3 for one tensor
// named `tensor` without metadata, numpy.save of numpy 1.26, u32 V and u32 d.
// dtype: one that CheckHolds lets pass. num_rows, dim >= 1. tensor: UTF-8.
std::string FileHeader(FileFormat format, Dtype dtype, int64_t num_rows, int64_t dim, absl::string_view tensor);

struct WriteOptions {
  std::string path;
  FileFormat format = FileFormat::kSafetensors;
  Dtype dtype = Dtype::kF32;  // the table's own, F32, F16 or BF16
  std::string tensor;         // safetensors: its name
  bool write_keys = true;     // where the table has keys
  bool force = false;         // existing files are replaced
};

// Where the keys of a table at `path` go: "a/b.npy" -> "a/b.vocab.txt".
std::string KeysPath(absl::string_view path);

// Writes the rows and, one per line in row order, the keys, each file by AtomicFile: the keys first, so that a table is
// never seen without them. Nothing is left behind on failure, but that a failure of the second rename leaves the keys.
// INVALID_ARGUMENT: a file exists and force is false. DATA_LOSS: a finite value that would become infinite in the dtype
// (row, column, value), a row without a key or with one that no line can hold. INTERNAL: the disk.
absl::Status WriteTable(const EmbeddingTable& table, const WriteOptions& options);

}  // namespace embedding::cli
