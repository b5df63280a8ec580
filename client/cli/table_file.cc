#include "client/cli/table_file.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/atomic_file.h"
#include "client/cli/text.h"
#include "server/table/gather.h"
#include "server/table/quote.h"

namespace embedding::cli {
namespace {

// Rows that are converted and written at a time.
constexpr size_t kPieceBytes = size_t{4} << 20;

std::string LittleEndian32(int64_t value) {
  const auto word = static_cast<uint32_t>(value);
  std::string bytes(sizeof(word), '\0');
  std::memcpy(bytes.data(), &word, sizeof(word));
  return bytes;
}

std::string SafetensorsHeader(Dtype dtype, int64_t num_rows, int64_t dim, absl::string_view tensor) {
  const uint64_t bytes = static_cast<uint64_t>(num_rows) * static_cast<uint64_t>(dim) * DtypeSize(dtype);
  std::string json = absl::StrCat("{", client::JsonString(std::string(tensor)), ":{\"dtype\":\"", DtypeName(dtype),
                                  "\",\"shape\":[", num_rows, ",", dim, "],\"data_offsets\":[0,", bytes, "]}}");
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + json;
}

const char* NpyDescr(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "<f4";
    case Dtype::kF16:
      return "<f2";
    case Dtype::kI8:
      return "|i1";
    case Dtype::kU8:
      return "|u1";
    default:
      return nullptr;
  }
}

// Version 1.0 of numpy/lib/format.py: room for a first axis of 21 digits, then blanks up to a multiple of 64.
std::string NpyHeader(Dtype dtype, int64_t num_rows, int64_t dim) {
  constexpr size_t kGrowthDigits = 21;
  constexpr size_t kFixedBytes = 10;  // magic, version, length
  const std::string rows = absl::StrCat(num_rows);
  std::string dict = absl::StrCat("{'descr': '", NpyDescr(dtype), "', 'fortran_order': False, 'shape': (", rows, ", ",
                                  dim, "), }", std::string(kGrowthDigits - rows.size(), ' '));
  dict.resize((kFixedBytes + dict.size() + 1 + 63) / 64 * 64 - kFixedBytes - 1, ' ');
  dict += '\n';
  const char fixed[] = {'\x93',
                        'N',
                        'U',
                        'M',
                        'P',
                        'Y',
                        '\1',
                        '\0',
                        static_cast<char>(dict.size() & 0xff),
                        static_cast<char>(dict.size() >> 8)};
  return std::string(fixed, sizeof(fixed)) + dict;
}

absl::Status WriteRows(const EmbeddingTable& table, Dtype dtype, AtomicFile* file) {
  if (dtype == table.dtype()) return file->Write(table.rows(), static_cast<size_t>(table.size_bytes()));
  const size_t row_bytes = static_cast<size_t>(table.dim()) * DtypeSize(dtype);
  const auto piece_rows = static_cast<int64_t>(std::max<size_t>(1, kPieceBytes / row_bytes));
  std::vector<std::byte> piece(row_bytes * static_cast<size_t>(std::min(piece_rows, table.num_rows())));
  std::vector<int64_t> ids;
  for (int64_t begin = 0; begin < table.num_rows(); begin += piece_rows) {
    ids.resize(static_cast<size_t>(std::min(piece_rows, table.num_rows() - begin)));
    std::iota(ids.begin(), ids.end(), begin);
    if (const std::optional<ValueOverflow> overflow = GatherRows(table, ids, dtype, piece.data())) {
      return absl::DataLossError(absl::StrFormat("row %d, column %d is %.9g, %s ends at +-%.9g",
                                                 begin + static_cast<int64_t>(overflow->position), overflow->column,
                                                 overflow->value, std::string(DtypeName(dtype)), LargestFinite(dtype)));
    }
    if (absl::Status status = file->Write(piece.data(), row_bytes * ids.size()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Why the keys of the table cannot stand in a file of lines; OK if they can.
absl::Status CheckLines(const Vocabulary& vocabulary) {
  for (int64_t row = 0; row < vocabulary.num_rows(); ++row) {
    const absl::string_view key = vocabulary.KeyOf(row);
    const char* reason = key.empty()                    ? "has no key"
                         : absl::StrContains(key, "\n") ? "has a key with a line break"
                         : absl::EndsWith(key, "\r")    ? "has a key that ends with a carriage return"
                         : row == 0 && absl::StartsWith(key, "\xEF\xBB\xBF")
                             ? "has a key that begins as a byte order mark"
                             : nullptr;
    if (reason == nullptr) continue;
    return absl::DataLossError(absl::StrCat(
        "row ", row, " ", reason, ", which a file of one key per line cannot hold; --no-keys leaves all keys out"));
  }
  return absl::OkStatus();
}

absl::Status WriteKeys(const Vocabulary& vocabulary, AtomicFile* file) {
  std::string lines;
  for (int64_t row = 0; row < vocabulary.num_rows(); ++row) {
    absl::StrAppend(&lines, vocabulary.KeyOf(row), "\n");
    if (lines.size() < kPieceBytes && row + 1 < vocabulary.num_rows()) continue;
    if (absl::Status status = file->Write(lines.data(), lines.size()); !status.ok()) return status;
    lines.clear();
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<FileFormat> FileFormatOf(absl::string_view path) {
  if (absl::EndsWithIgnoreCase(path, ".safetensors")) return FileFormat::kSafetensors;
  if (absl::EndsWithIgnoreCase(path, ".npy")) return FileFormat::kNpy;
  if (absl::EndsWithIgnoreCase(path, ".fbin")) return FileFormat::kFbin;
  return std::nullopt;
}

absl::Status CheckHolds(FileFormat format, Dtype dtype) {
  const bool is_npy = format == FileFormat::kNpy;
  if (format == FileFormat::kSafetensors || dtype == Dtype::kF32 || (is_npy && NpyDescr(dtype) != nullptr)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(is_npy ? ".npy files hold F32, F16, I8 and U8" : ".fbin files hold F32", ", not ", DtypeName(dtype),
                   ": add --dtype F32, or write .safetensors, which holds every dtype"));
}

std::string FileHeader(FileFormat format, Dtype dtype, int64_t num_rows, int64_t dim, absl::string_view tensor) {
  switch (format) {
    case FileFormat::kSafetensors:
      return SafetensorsHeader(dtype, num_rows, dim, tensor);
    case FileFormat::kNpy:
      return NpyHeader(dtype, num_rows, dim);
    case FileFormat::kFbin:
      break;
  }
  return LittleEndian32(num_rows) + LittleEndian32(dim);
}

std::string KeysPath(absl::string_view path) { return absl::StrCat(path.substr(0, path.rfind('.')), ".vocab.txt"); }

absl::Status WriteTable(const EmbeddingTable& table, const WriteOptions& options) {
  const Vocabulary* const keys = options.write_keys ? table.vocabulary() : nullptr;
  if (keys != nullptr) {
    if (absl::Status status = CheckLines(*keys); !status.ok()) return status;
  }
  absl::StatusOr<AtomicFile> rows_file = AtomicFile::Create(options.path, options.force);
  if (!rows_file.ok()) return rows_file.status();
  const std::string header = FileHeader(options.format, options.dtype, table.num_rows(), table.dim(), options.tensor);
  if (absl::Status status = rows_file->Write(header.data(), header.size()); !status.ok()) return status;
  if (keys == nullptr) {
    if (absl::Status status = WriteRows(table, options.dtype, &*rows_file); !status.ok()) return status;
    return rows_file->Commit();
  }
  absl::StatusOr<AtomicFile> keys_file = AtomicFile::Create(KeysPath(options.path), options.force);
  if (!keys_file.ok()) return keys_file.status();
  if (absl::Status status = WriteRows(table, options.dtype, &*rows_file); !status.ok()) return status;
  if (absl::Status status = WriteKeys(*keys, &*keys_file); !status.ok()) return status;
  if (absl::Status status = keys_file->Commit(); !status.ok()) return status;
  return rows_file->Commit();
}

}  // namespace embedding::cli
