#include "server/table/sniff.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

struct SniffCase {
  const char* name;
  std::string bytes;
  FileKind kind;
  bool certain;
};

// A zip's local file header for an entry of this name (APPNOTE.TXT 4.3.7).
std::string Zip(const std::string& name) {
  return std::string("PK\3\4", 4) + std::string(22, '\0') + Bytes<uint16_t>({static_cast<uint16_t>(name.size()), 0}) +
         name;
}

std::vector<SniffCase> Cases() {
  const std::string fbin = Bytes<uint32_t>({2, 3}) + std::string(24, '\1');
  return {
      {"GitLfs", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", FileKind::kGitLfsPointer,
       true},
      {"Html", "<!DOCTYPE html><html>", FileKind::kHtml, true},
      {"HtmlAfterBlanks", "\n  <HTML lang=en>", FileKind::kHtml, true},
      {"HtmlAfterBom", "\xEF\xBB\xBF<!doctype HTML>", FileKind::kHtml, true},
      {"Xml", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", FileKind::kXml, true},
      {"Npy", "\x93NUMPY\1", FileKind::kNpy, true},
      {"Safetensors", Safetensors("{\"a\":1}", ""), FileKind::kSafetensors, true},
      {"SafetensorsAfterBlank", Safetensors(" \n{\"a\":1}", ""), FileKind::kSafetensors, true},
      {"SafetensorsCutInHeader", U64(900) + "{\"a", FileKind::kSafetensors, true},
      {"Hdf5", "\x89HDF\r\n\x1a\n", FileKind::kHdf5, true},
      {"Fbin", fbin, FileKind::kFbin, true},
      {"Word2vec", "2 1\na " + Bytes<float>({0.5f}) + "b " + Bytes<float>({0.5f}), FileKind::kWord2vec, true},
      {"Word2vecText", "2 1\na 0.5\nb 0.25\n", FileKind::kWord2vecText, true},
      {"FastTextVectors", "2 2 \na 0.5 1 \nb 0.25 1 \n", FileKind::kWord2vecText, true},
      {"Glove", "the 0.5 0.25\nof 1 2\n", FileKind::kGlove, true},
      {"GloveCutInItsFirstLine", "the " + std::string(5000, '1'), FileKind::kUnknown, false},
      {"GloveOfIntegers", "7 3\n8 4\n", FileKind::kUnknown, false},
      {"Words", "the\nof\n", FileKind::kUnknown, false},
      {"Sentences", "In the year 1999\nnothing happened\n", FileKind::kUnknown, false},
      {"FastTextModel", Bytes<int32_t>({793712314, 12}), FileKind::kFastText, false},
      {"Gguf", std::string("GGUF\3\0\0\0", 8), FileKind::kGguf, true},
      {"FloatsThatBeginAsGguf", "GGUFGGUF", FileKind::kGguf, false},
      {"Zip", Zip("readme.txt"), FileKind::kZip, false},
      {"EmptyZip", std::string("PK\5\6", 4) + std::string(18, '\0'), FileKind::kZip, false},
      {"Npz", Zip("arr_0.npy"), FileKind::kNpz, true},
      {"Torch", Zip("model/data.pkl"), FileKind::kTorchZip, true},
      {"ZipCutInHeader", "PK\3\4", FileKind::kZip, false},
      {"Parquet", "PAR1\x15\x04", FileKind::kParquet, false},
      {"Gzip", std::string("\x1f\x8b\x08\0", 4), FileKind::kGzip, false},
      {"Pickle4", std::string("\x80\4\x95\x10\0\0\0\0\0\0\0", 11), FileKind::kPickle, false},
      {"Pickle2", std::string("\x80\2}q\0", 5), FileKind::kPickle, false},
      {"OldTorch", "\x80\2\x8a\nl\xfc\x9c", FileKind::kPickle, false},
      {"Fvecs", Bytes<int32_t>({1, 7, 1, 8}), FileKind::kFvecs, false},
      {"OneRowIsTooLittleForFvecs", Bytes<int32_t>({2, 7, 7}), FileKind::kUnknown, false},
      {"OtherWidthInSecondRow", Bytes<int32_t>({1, 7, 2, 8}), FileKind::kUnknown, false},
      {"Empty", "", FileKind::kUnknown, false},
      {"OneByte", "\x80", FileKind::kUnknown, false},
      {"Floats", Bytes<float>({0.5f, -0.25f, 1.0f, 2.0f}), FileKind::kUnknown, false},
      {"Zeros", std::string(64, '\0'), FileKind::kUnknown, false},
      // 640 rows: the count's first bytes are those of a pickle, but the size agrees with an .fbin.
      {"FbinThatBeginsAsPickle", Bytes<uint32_t>({0x280, 1}) + std::string(640 * 4, '\0'), FileKind::kFbin, true},
  };
}

class SniffTest : public ::testing::TestWithParam<SniffCase> {};

TEST_P(SniffTest, TellsTheKindByTheFirstBytes) {
  const Sniffed sniffed = SniffFile(GetParam().bytes, GetParam().bytes.size());
  EXPECT_EQ(Description(sniffed.kind), Description(GetParam().kind));
  EXPECT_EQ(sniffed.certain, GetParam().certain);
}

INSTANTIATE_TEST_SUITE_P(All, SniffTest, ::testing::ValuesIn(Cases()), [](const auto& i) { return i.param.name; });

TEST(SniffTest, NoPrefixOfAnyKindIsReadBeyondItsEnd) {
  for (const SniffCase& c : Cases()) {
    for (size_t size = 0; size < c.bytes.size(); ++size) {
      // A block of its own, so that AddressSanitizer sees one byte too many.
      const std::vector<char> head(c.bytes.begin(), c.bytes.begin() + static_cast<std::ptrdiff_t>(size));
      SniffFile(absl::string_view(head.data(), head.size()), size);
    }
  }
}

}  // namespace
}  // namespace embedding
