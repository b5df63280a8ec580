#include "server/table/load_table.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/table/glove.h"
#include "server/table/keyed_rows.h"
#include "server/table/load_rows.h"
#include "server/table/npy.h"
#include "server/table/quote.h"
#include "server/table/raw.h"
#include "server/table/safetensors.h"
#include "server/table/safetensors_set.h"
#include "server/table/sniff.h"
#include "server/table/source_file.h"
#include "server/table/vecs.h"
#include "server/table/word2vec.h"

namespace embedding {
namespace {

using absl::string_view;

TableFormat FormatOf(FileKind kind) {
  switch (kind) {
    case FileKind::kSafetensors:
    case FileKind::kSafetensorsIndex:
      return TableFormat::kSafetensors;
    case FileKind::kNpy:
      return TableFormat::kNpy;
    case FileKind::kFbin:
      return TableFormat::kFbin;
    case FileKind::kWord2vec:
      return TableFormat::kWord2vec;
    case FileKind::kWord2vecText:
      return TableFormat::kWord2vecText;
    case FileKind::kGlove:
      return TableFormat::kGlove;
    default:
      return TableFormat::kAuto;
  }
}

bool IsIndex(string_view path) { return absl::EndsWithIgnoreCase(path, ".index.json"); }

TableFormat FormatOfExtension(string_view path) {
  if (absl::EndsWithIgnoreCase(path, ".safetensors") || IsIndex(path)) return TableFormat::kSafetensors;
  if (absl::EndsWithIgnoreCase(path, ".npy")) return TableFormat::kNpy;
  for (const TableFormat format : {TableFormat::kFbin, TableFormat::kF16bin, TableFormat::kU8bin, TableFormat::kI8bin,
                                   TableFormat::kFvecs, TableFormat::kBvecs}) {
    if (absl::EndsWithIgnoreCase(path, absl::StrCat(".", TableFormatName(format)))) return format;
  }
  if (absl::EndsWithIgnoreCase(path, ".raw")) return TableFormat::kRaw;
  // Both kinds of text bear both names. One with a header is known by it; the other reader says what is wrong.
  if (absl::EndsWithIgnoreCase(path, ".txt") || absl::EndsWithIgnoreCase(path, ".vec")) return TableFormat::kGlove;
  return TableFormat::kAuto;
}

// The format to read: by the file's magic, then by its extension, then raw if only raw could need the options given. A
// file that is something else than was asked for is named as what it is.
absl::StatusOr<TableFormat> DecideFormat(const TableOptions& options, const Sniffed& sniffed, string_view head,
                                         uint64_t file_size) {
  const bool says_raw = options.dtype.has_value() && options.dim > 0;
  TableFormat wanted = options.format != TableFormat::kAuto ? options.format : FormatOfExtension(options.path);
  const TableFormat found = FormatOf(sniffed.kind);
  // Formats without a magic: the numbers decide, and ParseVecs knows best what else they may mean.
  if (IsVecsFormat(wanted) && (IsVecsFormat(found) || !sniffed.certain) &&
      (IsVecsFormat(found) || sniffed.kind == FileKind::kUnknown || sniffed.kind == FileKind::kFvecs ||
       sniffed.kind == FileKind::kBvecs || FitsVecsFormat(wanted, head, file_size))) {
    return wanted;
  }
  if (options.format == TableFormat::kAuto) {
    if (found != TableFormat::kAuto) {
      wanted = found;
    } else if (wanted == TableFormat::kAuto && says_raw) {
      wanted = TableFormat::kRaw;
    }
  }
  if (found != TableFormat::kAuto && found != wanted) {
    return absl::DataLossError(absl::StrCat("format=", TableFormatName(wanted), " was asked for, but the file is ",
                                            Description(sniffed.kind)));
  }
  // Raw files may begin with any bytes, so a short magic says nothing about them.
  if (found == TableFormat::kAuto && sniffed.kind != FileKind::kUnknown &&
      (sniffed.certain || wanted != TableFormat::kRaw)) {
    return absl::DataLossError(absl::StrCat(
        "file is ", Description(sniffed.kind),
        options.format == TableFormat::kAuto ? ""
                                             : absl::StrCat(" (format=", TableFormatName(wanted), " was asked for)")));
  }
  if (wanted == TableFormat::kAuto && file_size == 0) return absl::DataLossError("file ends at byte 0: it is empty");
  if (wanted == TableFormat::kAuto) {
    return absl::DataLossError(
        absl::StrCat("format not recognised by the first bytes or the extension; give format=safetensors, npy, fbin, "
                     "f16bin, u8bin, i8bin, fvecs, bvecs, word2vec, word2vec-text, glove, or raw with dtype= and dim= "
                     "(the file has ",
                     file_size, " bytes)"));
  }
  return wanted;
}

// Options that ParseTableOptions had to let through while the format was open.
absl::Status CheckOptions(const TableOptions& options, TableFormat format) {
  const string_view name = TableFormatName(format);
  if (format != TableFormat::kRaw && options.dtype.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("dtype= is for format=raw, the file is read as ", name));
  }
  if (format != TableFormat::kRaw && options.dim != 0) {
    return absl::InvalidArgumentError(absl::StrCat("dim= is for format=raw, the file is read as ", name));
  }
  if (format != TableFormat::kSafetensors && !options.tensor.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor= is for format=safetensors, the file is read as ", name));
  }
  if (HoldsKeys(format) && !options.vocab.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocab= is for files without keys, the file is read as ", name, ", which holds its own"));
  }
  if (!HoldsKeys(format) && options.vocab.empty() && (options.keys.skip_invalid || options.keys.first_keeps)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.keys.skip_invalid ? "invalid-keys=" : "duplicate-keys=", " needs vocab=, the file is read as ", name,
        ", which holds no keys"));
  }
  return absl::OkStatus();
}

// The first `count` bytes, or all if there are fewer.
absl::StatusOr<std::string> ReadHead(const SourceFile& file, uint64_t count) {
  std::string head(std::min(count, file.size()), '\0');
  if (absl::Status status = file.ReadAt(0, head.size(), head.data()); !status.ok()) return status;
  return head;
}

// An open file, by the path that names it in messages, with the layout of the table in it.
struct OpenTable {
  SourceFile file;
  std::string path;
  RowLayout layout;
  SafetensorsMetadata metadata;
};

// The table of a set; file is the index.
absl::StatusOr<OpenTable> OpenSet(const SourceFile& file, const TableOptions& options, const TableLimits& limits) {
  if (file.size() > kMaxSafetensorsIndexBytes) {
    return WithPath(options.path,
                    absl::DataLossError(absl::StrCat("safetensors index has ", file.size(), " bytes, the limit is ",
                                                     kMaxSafetensorsIndexBytes)));
  }
  absl::StatusOr<std::string> json = ReadHead(file, file.size());
  if (!json.ok()) return WithPath(options.path, json.status());
  absl::StatusOr<WeightMap> weight_map = ParseSafetensorsIndex(*std::move(json));
  if (absl::Status status = file.CheckUnchanged(); !status.ok()) return WithPath(options.path, status);
  if (!weight_map.ok()) return WithPath(options.path, weight_map.status());
  absl::StatusOr<ShardTable> table = FindTableInSet(options.path, *weight_map, options.tensor, limits);
  if (!table.ok()) return table.status();
  return OpenTable{std::move(table->file), std::move(table->path), table->layout, std::move(table->metadata)};
}

absl::StatusOr<OpenTable> OpenSafetensors(SourceFile file, const TableOptions& options, const TableLimits& limits) {
  absl::StatusOr<SafetensorsContent> content = ReadSafetensorsHeader(file);
  if (!content.ok()) return WithPath(options.path, content.status());
  absl::StatusOr<RowLayout> layout = SelectTable(content->tensors, options.tensor, limits);
  if (!layout.ok()) return WithPath(options.path, layout.status());
  return OpenTable{std::move(file), options.path, *layout, std::move(content->metadata)};
}

absl::StatusOr<RowLayout> ReadLayout(const SourceFile& file, string_view head, TableFormat format,
                                     const TableOptions& options, const TableLimits& limits) {
  switch (format) {
    case TableFormat::kNpy: {
      absl::StatusOr<std::string> whole_head = ReadHead(file, kNpyHeadBytes);
      if (!whole_head.ok()) return whole_head.status();
      return ParseNpy(*whole_head, file.size(), limits);
    }
    case TableFormat::kFbin:
    case TableFormat::kF16bin:
    case TableFormat::kU8bin:
    case TableFormat::kI8bin:
    case TableFormat::kFvecs:
    case TableFormat::kBvecs:
      return ParseVecs(format, head, file.size(), limits);
    default:
      break;
  }
  return ParseRaw(options.dtype, options.dim, file.size(), limits);
}

// The file as a table of a format without keys. Messages begin with the path of the file that is meant.
absl::StatusOr<OpenTable> OpenFormat(SourceFile file, string_view head, TableFormat format, FileKind kind,
                                     const TableOptions& options, const TableLimits& limits) {
  if (format == TableFormat::kSafetensors) {
    // By the name too, so that an index which is none is told what it lacks.
    const bool is_set =
        kind == FileKind::kSafetensorsIndex || (kind != FileKind::kSafetensors && IsIndex(options.path));
    return is_set ? OpenSet(file, options, limits) : OpenSafetensors(std::move(file), options, limits);
  }
  absl::StatusOr<RowLayout> layout = ReadLayout(file, head, format, options, limits);
  if (!layout.ok()) return WithPath(options.path, layout.status());
  return OpenTable{std::move(file), options.path, *layout, {}};
}

// Metadata goes out with every TableInfo, so what is long stays out as a whole: half of it could mislead.
void KeepMetadata(SafetensorsMetadata metadata, EmbeddingTable::Parts* parts) {
  size_t size = 0;
  for (const auto& [key, value] : metadata) size += key.size() + value.size();
  if (size > kMaxMetadataBytes) {
    parts->metadata_bytes_left_out = static_cast<int64_t>(size);
  } else {
    parts->metadata = std::move(metadata);
  }
}

// After num_rows, dim and the vocabulary.
void TakeRows(LoadedRows rows, EmbeddingTable::Parts* parts) {
  parts->dtype = rows.dtype;
  parts->rows = std::move(rows.bytes);
  parts->zero_rows = rows.zero_rows;
  parts->non_finite_rows = std::move(rows.non_finite_rows);
  parts->fingerprint = Fingerprint(parts->dtype, parts->num_rows, parts->dim, rows.digests, parts->vocabulary.get());
}

absl::StatusOr<KeyedRows> ReadKeyedRows(const SourceFile& file, TableFormat format, const TableOptions& options,
                                        const TableLimits& limits, WorkerPool& pool, const LoadProgress& progress) {
  if (format == TableFormat::kWord2vec) return ReadWord2vec(file, limits, options.keys, progress);
  const TextRowsOptions text = {.has_header = format == TableFormat::kWord2vecText,
                                .limits = limits,
                                .keys = options.keys,
                                .allow_non_finite = options.allow_non_finite};
  return ReadTextRows(file, text, pool, progress);
}

// A file that holds keys beside its rows, of parts->format.
absl::Status LoadKeyedRows(const SourceFile& file, const TableOptions& options, const TableLimits& limits,
                           WorkerPool& pool, const LoadProgress& progress, RowObserver* observer,
                           EmbeddingTable::Parts* parts) {
  absl::StatusOr<KeyedRows> keyed = ReadKeyedRows(file, parts->format, options, limits, pool, progress);
  if (!keyed.ok()) return keyed.status();
  parts->num_rows = keyed->num_rows;
  parts->dim = keyed->dim;
  parts->source_dtype = Dtype::kF32;
  const bool in_lines = parts->format != TableFormat::kWord2vec;
  const int64_t first = parts->format == TableFormat::kGlove ? 1 : parts->format == TableFormat::kWord2vecText ? 2 : 0;
  absl::StatusOr<std::unique_ptr<const Vocabulary>> keys =
      TakeKeys(&*keyed, in_lines ? "line" : "row", first, options.keys);
  if (!keys.ok()) return keys.status();
  parts->vocabulary = *std::move(keys);
  absl::StatusOr<LoadedRows> rows = ScanRows(std::move(keyed->rows), Dtype::kF32, parts->num_rows, parts->dim,
                                             options.allow_non_finite, pool, observer);
  if (!rows.ok()) return rows.status();
  TakeRows(*std::move(rows), parts);
  return absl::OkStatus();
}

// Finds the row that default-row= names, after num_rows and the vocabulary. What is all digits is an id, anything else
// a key.
absl::Status FindDefaultRow(const std::string& option, EmbeddingTable::Parts* parts) {
  if (option.empty()) return absl::OkStatus();
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("default-row=", EscapedText(option), why));
  };
  if (std::all_of(option.begin(), option.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    if (absl::SimpleAtoi(option, &parts->default_row) && parts->default_row < parts->num_rows) return absl::OkStatus();
    return refuse(absl::StrCat(": the table has ", parts->num_rows, " rows, ids end at ", parts->num_rows - 1));
  }
  if (parts->vocabulary == nullptr) return refuse(" is no row id, and the table has no keys (vocab=)");
  const std::optional<int64_t> id = parts->vocabulary->Find(option);
  if (!id) return refuse(" is neither a row id nor a key of the table");
  parts->default_row = *id;
  return absl::OkStatus();
}

absl::StatusOr<EmbeddingTable::Parts> LoadParts(const TableOptions& options, const TableLimits& limits,
                                                WorkerPool& pool, const LoadProgress& progress, RowObserver* observer) {
  const auto with_path = [&](const absl::Status& status) { return WithPath(options.path, status); };
  absl::StatusOr<SourceFile> file = SourceFile::Open(options.path);
  if (!file.ok()) return with_path(file.status());
  absl::StatusOr<std::string> head = ReadHead(*file, kSniffBytes);
  if (!head.ok()) return with_path(head.status());
  const Sniffed sniffed = SniffFile(*head, file->size());
  absl::StatusOr<TableFormat> format = DecideFormat(options, sniffed, *head, file->size());
  if (!format.ok()) return with_path(format.status());
  if (absl::Status status = CheckOptions(options, *format); !status.ok()) return with_path(status);

  EmbeddingTable::Parts parts;
  parts.name = options.name;
  parts.format = *format;
  parts.metric = options.metric;
  if (HoldsKeys(*format)) {
    absl::Status status = LoadKeyedRows(*file, options, limits, pool, progress, observer, &parts);
    // A file that changed explains any other error.
    if (absl::Status changed = file->CheckUnchanged(); !changed.ok()) status = std::move(changed);
    if (status.ok()) status = FindDefaultRow(options.default_row, &parts);
    if (!status.ok()) return with_path(status);
    return parts;
  }
  absl::StatusOr<OpenTable> table = OpenFormat(*std::move(file), *head, *format, sniffed.kind, options, limits);
  if (!table.ok()) return table.status();
  parts.num_rows = table->layout.num_rows;
  parts.dim = table->layout.dim;
  parts.source_dtype = table->layout.dtype;
  KeepMetadata(std::move(table->metadata), &parts);
  // Before the rows: it is read in less time, and it is what is wrong more often.
  if (!options.vocab.empty()) {
    absl::StatusOr<std::unique_ptr<const Vocabulary>> vocabulary =
        LoadVocabulary(VocabularyPath(options), table->layout.num_rows, options.keys);
    if (!vocabulary.ok()) return vocabulary.status();
    parts.vocabulary = *std::move(vocabulary);
  }
  if (absl::Status status = FindDefaultRow(options.default_row, &parts); !status.ok()) {
    return WithPath(table->path, status);
  }
  absl::StatusOr<LoadedRows> rows =
      LoadRows(table->file, table->layout, options.allow_non_finite, pool, progress, observer);
  // A file that changed explains any other error.
  if (absl::Status status = table->file.CheckUnchanged(); !status.ok()) return WithPath(table->path, status);
  if (!rows.ok()) return WithPath(table->path, rows.status());
  TakeRows(*std::move(rows), &parts);
  return parts;
}

}  // namespace

std::string VocabularyPath(const TableOptions& options) {
  const size_t slash = options.path.rfind('/');
  if (options.vocab[0] == '/' || slash == std::string::npos) return options.vocab;
  return options.path.substr(0, slash + 1) + options.vocab;
}

absl::StatusOr<std::unique_ptr<EmbeddingTable>> LoadTable(const TableOptions& options, const TableLimits& limits,
                                                          WorkerPool& pool, const LoadProgress& progress,
                                                          RowObserver* observer) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<EmbeddingTable::Parts> parts = LoadParts(options, limits, pool, progress, observer);
  if (!parts.ok()) return parts.status();
  parts->load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::make_unique<EmbeddingTable>(*std::move(parts));
}

}  // namespace embedding
