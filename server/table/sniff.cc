#include "server/table/sniff.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/match.h"
#include "server/table/safetensors.h"
#include "server/table/text_row.h"
#include "server/table/vecs.h"
#include "server/table/word2vec.h"

namespace embedding {
namespace {

using absl::string_view;

unsigned ByteAt(string_view head, size_t i) { return i < head.size() ? static_cast<unsigned char>(head[i]) : 256u; }

string_view WithoutLeadingSpace(string_view text) {
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n')) {
    text.remove_prefix(1);
  }
  return text;
}

// A length that a header may have, then the beginning of a JSON object with a key or of an empty one. The length may
// pass the end of the file: then the file was cut short, and its reader says so.
bool LooksLikeSafetensors(string_view head) {
  if (head.size() < kSafetensorsLengthBytes + 2) return false;
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  if (length < 2 || length > kMaxSafetensorsHeaderBytes) return false;
  const string_view json = WithoutLeadingSpace(head.substr(kSafetensorsLengthBytes));
  if (json.empty() || json[0] != '{') return false;
  const string_view rest = WithoutLeadingSpace(json.substr(1));
  return rest.empty() || rest[0] == '"' || rest[0] == '}';
}

// An object with a key, or an empty one.
bool LooksLikeJson(string_view text) {
  if (text.empty() || text[0] != '{') return false;
  const string_view rest = WithoutLeadingSpace(text.substr(1));
  return !rest.empty() && (rest[0] == '"' || rest[0] == '}');
}

// The archive's first entry tells who wrote it: numpy.savez stores "name.npy", torch.save "folder/data.pkl".
FileKind KindOfZip(string_view head) {
  constexpr size_t kNameLengthAt = 26;  // APPNOTE.TXT 4.3.7, local file header
  constexpr size_t kNameAt = 30;
  if (head.size() < kNameAt) return FileKind::kZip;
  const size_t length = ByteAt(head, kNameLengthAt) | ByteAt(head, kNameLengthAt + 1) << 8;
  const string_view name = head.substr(kNameAt, length);
  if (absl::EndsWith(name, ".npy")) return FileKind::kNpz;
  if (absl::EndsWith(name, "/data.pkl")) return FileKind::kTorchZip;
  return FileKind::kZip;
}

// PROTO with 2..5, then what begins a pickle in practice: a frame from protocol 4 on; before it an empty container, a
// global, a mark or (as old torch.save does) a long number.
bool LooksLikePickle(string_view head) {
  if (ByteAt(head, 0) != 0x80) return false;
  const unsigned protocol = ByteAt(head, 1);
  const unsigned opcode = ByteAt(head, 2);
  if (protocol == 4 || protocol == 5) return opcode == 0x95;
  return (protocol == 2 || protocol == 3) &&
         (opcode == ']' || opcode == '}' || opcode == ')' || opcode == 'c' || opcode == '(' || opcode == 0x8A);
}

// Fields behind the key that the line shows, if all of them are numbers and no byte is a control character; 0 if not.
// The last field of a line that is cut says nothing.
int64_t NumbersInTextRow(string_view line, bool is_cut) {
  if (is_cut) line = line.substr(0, std::min(line.find_last_of(" \t"), line.size()));
  for (const unsigned char byte : line) {
    if (byte < 0x20 && byte != '\t' && byte != '\r') return 0;
  }
  return CountTrailingNumbers(line);
}

// By the first lines, as far as the head shows them. Two integers alone are a word2vec header, unless the next line
// looks just the same; what follows tells binary from text. Anything else with two numbers behind its first field is
// GloVe text.
FileKind KindOfVectors(string_view head, uint64_t file_size) {
  const size_t line_end = head.find('\n');
  const string_view line = head.substr(0, line_end);
  const bool is_cut = line_end == string_view::npos && head.size() < file_size;
  if (line_end != string_view::npos && ParseWord2vecHeader(line, /*is_text=*/true).has_value()) {
    const string_view rest = head.substr(line_end + 1);
    const size_t row_end = rest.find('\n');
    const bool row_is_cut = row_end == string_view::npos && head.size() < file_size;
    const string_view row = rest.substr(0, row_end);
    if (ParseWord2vecHeader(row, /*is_text=*/true).has_value()) return FileKind::kUnknown;
    return NumbersInTextRow(row, row_is_cut) > 0 ? FileKind::kWord2vecText : FileKind::kWord2vec;
  }
  return NumbersInTextRow(line, is_cut) >= 2 ? FileKind::kGlove : FileKind::kUnknown;
}

}  // namespace

Sniffed SniffFile(string_view head, uint64_t file_size) {
  if (absl::StartsWith(head, "version https://git-lfs.") ||
      absl::StartsWith(head, "version https://hawser.github.com")) {
    return {FileKind::kGitLfsPointer, true};
  }
  const string_view text = WithoutLeadingSpace(head);
  if (absl::StartsWithIgnoreCase(text, "<!doctype html") || absl::StartsWithIgnoreCase(text, "<html")) {
    return {FileKind::kHtml, true};
  }
  if (absl::StartsWith(text, "<?xml ")) return {FileKind::kXml, true};
  if (LooksLikeJson(text)) {
    return {absl::StrContains(text, "\"weight_map\"") ? FileKind::kSafetensorsIndex : FileKind::kJson, true};
  }
  if (absl::StartsWith(head, "\x93NUMPY")) return {FileKind::kNpy, true};
  if (LooksLikeSafetensors(head)) return {FileKind::kSafetensors, true};
  if (absl::StartsWith(head, "\x89HDF\r\n\x1a\n")) return {FileKind::kHdf5, true};
  // Before the short magics: the size of a good .fbin agrees with its first 8 bytes, which chance does not do.
  if (FitsVecsFormat(TableFormat::kFbin, head, file_size)) return {FileKind::kFbin, true};
  if (absl::StartsWith(head, "GGUF")) {
    const unsigned version = ByteAt(head, 4);
    return {FileKind::kGguf, version >= 1 && version <= 9 && ByteAt(head, 5) == 0 && ByteAt(head, 6) == 0};
  }
  if (absl::StartsWith(head, "PK\x03\x04")) {
    const FileKind kind = KindOfZip(head);
    return {kind, kind != FileKind::kZip};
  }
  if (absl::StartsWith(head, "PK\x05\x06")) return {FileKind::kZip, false};
  // FASTTEXT_FILEFORMAT_MAGIC_INT32 793712314, little-endian (facebookresearch/fastText, src/fasttext.cc).
  if (absl::StartsWith(head, "\xBA\x16\x4F\x2F")) return {FileKind::kFastText, false};
  if (absl::StartsWith(head, "PAR1")) return {FileKind::kParquet, false};
  if (absl::StartsWith(head, "\x1f\x8b\x08")) return {FileKind::kGzip, false};
  if (LooksLikePickle(head)) return {FileKind::kPickle, false};
  if (const FileKind kind = KindOfVectors(head, file_size); kind != FileKind::kUnknown) return {kind, true};
  if (LooksLikeVecs(TableFormat::kFvecs, head, file_size)) return {FileKind::kFvecs, false};
  if (LooksLikeVecs(TableFormat::kBvecs, head, file_size)) return {FileKind::kBvecs, false};
  return {};
}

string_view Description(FileKind kind) {
  switch (kind) {
    case FileKind::kUnknown:
      return "of no known format";
    case FileKind::kSafetensors:
      return "a safetensors file";
    case FileKind::kSafetensorsIndex:
      return "the index of a safetensors set";
    case FileKind::kNpy:
      return "a NumPy .npy file";
    case FileKind::kFbin:
      return "an .fbin file";
    case FileKind::kWord2vec:
      return "a word2vec binary file";
    case FileKind::kWord2vecText:
      return "a word2vec text file (its first line is rows and width)";
    case FileKind::kGlove:
      return "a GloVe text file (a key and numbers in each line)";
    case FileKind::kGitLfsPointer:
      return "a git-lfs pointer, not the file itself: fetch it with git lfs pull";
    case FileKind::kHtml:
      return "an HTML page, not a table: the download gave an error or a login page";
    case FileKind::kXml:
      return "an XML document, not a table: the download gave an error message";
    case FileKind::kGzip:
      return "gzip-compressed: decompress it with gunzip first";
    case FileKind::kZip:
      return "a zip archive: extract the table from it first";
    case FileKind::kNpz:
      return "a NumPy .npz archive (zip): extract one .npy from it first";
    case FileKind::kTorchZip:
      return "a PyTorch checkpoint (zip with a pickle), which is never executed: save the table as safetensors";
    case FileKind::kPickle:
      return "a Python pickle, which is never executed: save the table as safetensors";
    case FileKind::kGguf:
      return "a GGUF model: save the table as safetensors";
    case FileKind::kHdf5:
      return "an HDF5 file: save the table as safetensors";
    case FileKind::kParquet:
      return "a Parquet file: save the table as safetensors";
    case FileKind::kFvecs:
      return "an .fvecs file (each row begins with its width): give format=fvecs or name it so";
    case FileKind::kBvecs:
      return "a .bvecs file (each row begins with its width): give format=bvecs or name it so";
    case FileKind::kJson:
      return "JSON, not a table: a vocabulary goes behind vocab=, the index of a safetensors set has a weight_map";
    case FileKind::kFastText:
      return "a fastText model: its vectors are in the .vec file beside it";
  }
  return "";
}

}  // namespace embedding
