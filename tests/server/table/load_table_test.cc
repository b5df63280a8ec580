#include "server/table/load_table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <limits>

#include "absl/strings/ascii.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Result = absl::StatusOr<std::unique_ptr<EmbeddingTable>>;

// [2, 3] in F32, as each of the formats.
const std::string kRows = Bytes<float>({1, 2, 3, 4, 5, 6});
const std::string kSafetensors = Safetensors(R"({"emb":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", kRows);
const std::string kFbin = Bytes<uint32_t>({2, 3}) + kRows;
const std::string kNpyHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
const std::string kNpy =
    std::string("\x93NUMPY\1\0", 8) + Bytes<uint16_t>({static_cast<uint16_t>(kNpyHeader.size())}) + kNpyHeader + kRows;

class LoadTableTest : public ::testing::Test {
 protected:
  Result Load(const std::string& path, const std::string& options = "", const TableLimits& limits = {}) {
    const absl::StatusOr<TableOptions> parsed = ParseTableOptions("t=" + path + (options.empty() ? "" : "," + options));
    if (!parsed.ok()) return parsed.status();
    return LoadTable(*parsed, limits, pool_);
  }

  Result LoadBytes(const std::string& name, const std::string& bytes, const std::string& options = "",
                   const TableLimits& limits = {}) {
    return Load(folder_.Write(name, bytes), options, limits);
  }

  TempFolder folder_;
  WorkerPool pool_{2};
};

TEST_F(LoadTableTest, TheTableTellsWhatItWasLoadedAs) {
  folder_.Write("keys.txt", "a\nb\n");
  const Result table = LoadBytes("f.safetensors", kSafetensors, "vocab=keys.txt,metric=dot");
  ASSERT_THAT(table, Succeeds());
  EXPECT_EQ((*table)->name(), "t");
  EXPECT_EQ((*table)->format(), TableFormat::kSafetensors);
  EXPECT_EQ((*table)->metric(), TableMetric::kDot);
  EXPECT_EQ((*table)->vocabulary()->Find("b"), 1);
  EXPECT_GT((*table)->load_seconds(), 0);
  EXPECT_EQ(std::memcmp((*table)->rows(), kRows.data(), kRows.size()), 0);
}

TEST_F(LoadTableTest, VocabularyPathsAreAbsoluteOrBesideTheTable) {
  folder_.Write("keys.txt", "a\nb\n");
  const TempFolder elsewhere;
  const std::string keys = elsewhere.Write("k.txt", "c\nd\n");
  const std::string path = folder_.Write("f.safetensors", kSafetensors);
  EXPECT_THAT(Load(path, "vocab=keys.txt"), Succeeds());
  const Result table = Load(path, "vocab=" + keys);
  ASSERT_THAT(table, Succeeds());
  EXPECT_EQ((*table)->vocabulary()->KeyOf(0), "c");
  EXPECT_THAT(Load(path, "vocab=k.txt"), Fails(kDataLoss, StartsWith(folder_.Path("k.txt") + ": cannot be opened")));
}

// ---- Paths ----

TEST_F(LoadTableTest, PathsThatAreNoRegularFileAreRefusedAtOnce) {
  ASSERT_EQ(mkfifo(folder_.Path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("circular", folder_.Path("circular"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(Load(folder_.Path("none")),
              Fails(kDataLoss, folder_.Path("none") + ": cannot be opened: No such file or directory"));
  EXPECT_THAT(Load(folder_.Path(".")), Fails(kDataLoss, HasSubstr(": is a directory, not a regular file")));
  EXPECT_THAT(Load(folder_.Path("fifo")), Fails(kDataLoss, HasSubstr(": is a FIFO, not a regular file")));
  EXPECT_THAT(Load("/dev/zero"), Fails(kDataLoss, "/dev/zero: is a character device, not a regular file"));
  EXPECT_THAT(Load(folder_.Path("circular")), Fails(kDataLoss, HasSubstr("Too many levels of symbolic links")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// ---- Cut files ----

TEST_F(LoadTableTest, ASafetensorsFileCutAtAnyLengthIsRefusedWithItsLength) {
  for (size_t size = 0; size < kSafetensors.size(); ++size) {
    const std::string ends = "file ends at byte " + std::to_string(size);
    EXPECT_THAT(LoadBytes("f.safetensors", kSafetensors.substr(0, size)), Fails(kDataLoss, HasSubstr(ends)));
    // A file cut by less than its data is also known for what it is without the extension.
    if (size >= 10) {
      EXPECT_THAT(LoadBytes("f.bin", kSafetensors.substr(0, size)), Fails(kDataLoss, HasSubstr(ends)));
    }
  }
  EXPECT_THAT(LoadBytes("f.safetensors", kSafetensors.substr(0, kSafetensors.size() - 1)),
              Fails(kDataLoss, HasSubstr("tensor \"emb\" needs " + std::to_string(kSafetensors.size()))));
}

TEST_F(LoadTableTest, NpyAndFbinFilesCutAtAnyLengthAreRefusedWithTheirLength) {
  for (size_t size = 0; size < kNpy.size(); ++size) {
    EXPECT_THAT(LoadBytes("f.npy", kNpy.substr(0, size)),
                Fails(kDataLoss, HasSubstr("file ends at byte " + std::to_string(size))));
  }
  for (size_t size = 0; size < kFbin.size(); ++size) {
    EXPECT_THAT(LoadBytes("f.fbin", kFbin.substr(0, size)),
                Fails(kDataLoss, HasSubstr("file ends at byte " + std::to_string(size))));
  }
}

// ---- What a file really is ----

struct Pair {
  const char* name;
  const std::string* bytes;
  TableFormat format;
};

TEST_F(LoadTableTest, RightContentUnderAWrongExtensionIsReadByItsMagic) {
  const Pair kContents[] = {{"safetensors", &kSafetensors, TableFormat::kSafetensors},
                            {"npy", &kNpy, TableFormat::kNpy},
                            {"fbin", &kFbin, TableFormat::kFbin}};
  for (const Pair& content : kContents) {
    for (const char* extension : {".safetensors", ".npy", ".fbin", ".raw", ".bin", ""}) {
      const Result table = LoadBytes(std::string("f") + extension, *content.bytes);
      ASSERT_THAT(table, Succeeds()) << content.name << " as " << extension;
      EXPECT_EQ((*table)->format(), content.format);
      EXPECT_EQ(std::memcmp((*table)->rows(), kRows.data(), kRows.size()), 0);
    }
  }
}

TEST_F(LoadTableTest, AFormatThatContradictsTheContentIsRefusedWithBothNamed) {
  const struct {
    const char* found;
    const std::string* bytes;
    const char* name;
  } kContents[] = {{"a safetensors file", &kSafetensors, "safetensors"},
                   {"a NumPy .npy file", &kNpy, "npy"},
                   {"an .fbin file", &kFbin, "fbin"}};
  for (const auto& content : kContents) {
    for (const std::string wanted : {"safetensors", "npy", "fbin", "raw"}) {
      const std::string options = "format=" + wanted + (wanted == "raw" ? ",dtype=F16,dim=1" : "");
      if (wanted == content.name) {
        EXPECT_THAT(LoadBytes("f", *content.bytes, options), Succeeds());
      } else {
        EXPECT_THAT(
            LoadBytes("f", *content.bytes, options),
            Fails(kDataLoss, AllOf(HasSubstr("format=" + wanted + " was asked for"), HasSubstr(content.found))));
      }
    }
  }
}

// Files of the plain binary formats, which have no magic: two rows of width 3.
struct PlainFile {
  const char* format;
  std::string bytes;
  const char* looks;
};

std::vector<PlainFile> PlainFiles() {
  const std::string header = Bytes<uint32_t>({2, 3});
  const std::string floats = Bytes<float>({1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f});
  const std::string width = Bytes<int32_t>({3});
  return {{"fbin", header + floats, "file is an .fbin file"},
          {"f16bin", header + floats.substr(0, 12), "file is an .f16bin file"},
          {"u8bin", header + "abcdef", "file is a .u8bin or .i8bin file"},
          {"i8bin", header + "abcdef", "file is a .u8bin or .i8bin file"},
          {"fvecs", width + floats.substr(0, 12) + width + floats.substr(12), "file is an .fvecs file"},
          {"bvecs", width + "abc" + width + "def", "file is a .bvecs file"}};
}

TEST_F(LoadTableTest, PlainFormatsAreReadByExtensionAndByFormat) {
  for (const PlainFile& file : PlainFiles()) {
    const std::string format = file.format;
    for (const Result& table :
         {LoadBytes("f." + format, file.bytes), LoadBytes("F." + absl::AsciiStrToUpper(format), file.bytes),
          LoadBytes("f", file.bytes, "format=" + format), LoadBytes("f.dat", file.bytes, "format=" + format)}) {
      ASSERT_THAT(table, Succeeds()) << format;
      EXPECT_EQ(TableFormatName((*table)->format()), format);
      EXPECT_EQ((*table)->num_rows(), 2);
      EXPECT_EQ((*table)->dim(), 3);
      const bool has_widths = format == "fvecs" || format == "bvecs";
      const size_t row_bytes = (*table)->row_bytes();
      const std::string first = file.bytes.substr(has_widths ? 4 : 8, row_bytes);
      const std::string second = file.bytes.substr(file.bytes.size() - row_bytes);
      EXPECT_EQ(std::memcmp((*table)->rows(), (first + second).data(), 2 * row_bytes), 0) << format;
    }
  }
}

TEST_F(LoadTableTest, EveryPlainFileUnderTheNameOfAnotherIsRefusedByWhatItIs) {
  for (const PlainFile& file : PlainFiles()) {
    for (const PlainFile& wanted : PlainFiles()) {
      if (std::string(file.looks) == wanted.looks) continue;
      const std::string name = std::string("f.") + wanted.format;
      EXPECT_THAT(LoadBytes(name, file.bytes),
                  Fails(kDataLoss, AllOf(StartsWith(folder_.Path(name) + ": " + file.looks),
                                         HasSubstr(std::string("not .") + wanted.format))));
      EXPECT_THAT(LoadBytes("f", file.bytes, std::string("format=") + wanted.format),
                  Fails(kDataLoss, HasSubstr(file.looks)));
    }
  }
}

TEST_F(LoadTableTest, OtherFilesUnderThePlainFormatsNamesAreNamedByTheirMagic) {
  for (const char* format : {"fbin", "f16bin", "u8bin", "i8bin", "fvecs", "bvecs"}) {
    const std::string option = std::string("format=") + format;
    EXPECT_THAT(LoadBytes("f", kNpy, option), Fails(kDataLoss, HasSubstr("the file is a NumPy .npy file")));
    EXPECT_THAT(LoadBytes("f", kSafetensors, option), Fails(kDataLoss, HasSubstr("the file is a safetensors file")));
    EXPECT_THAT(LoadBytes("f", std::string("\x1f\x8b\x08\0\0\0\0\0", 8), option),
                Fails(kDataLoss, HasSubstr("gzip-compressed")));
    EXPECT_THAT(LoadBytes("f", "<!DOCTYPE html><html></html>", option), Fails(kDataLoss, HasSubstr("HTML page")));
    EXPECT_THAT(LoadBytes("f", "", option), Fails(kDataLoss, HasSubstr("file ends at byte 0")));
  }
}

// A count of rows whose bytes are a gzip magic: the size decides.
TEST_F(LoadTableTest, APlainFileMayBeginAsAnotherFormatDoes) {
  const std::string bytes = Bytes<uint32_t>({0x00088b1f, 1}) + std::string(0x00088b1f, 'x');
  EXPECT_THAT(LoadBytes("f.u8bin", bytes), Succeeds());
  EXPECT_THAT(LoadBytes("f.u8bin", bytes + "x"), Fails(kDataLoss, HasSubstr("gzip-compressed")));
}

TEST_F(LoadTableTest, WidthsThatChangeFarBehindTheFirstBytesAreFound) {
  std::string bytes;
  for (int row = 0; row < 5000; ++row) bytes += Bytes<int32_t>({1, 7});
  EXPECT_THAT(LoadBytes("f.fvecs", bytes), Succeeds());
  bytes[8 * 4321] = 2;
  EXPECT_THAT(LoadBytes("f.fvecs", bytes),
              Fails(kDataLoss, HasSubstr("row 4321 begins with the width 2, row 0 with 1")));
}

TEST_F(LoadTableTest, RawRowsAreNotTakenForAnotherFormat) {
  for (const std::string wanted : {"safetensors", "npy", "fbin"}) {
    EXPECT_THAT(LoadBytes("f", kRows, "format=" + wanted), Fails(kDataLoss, HasSubstr(wanted)));
  }
}

TEST_F(LoadTableTest, FilesThatAreSomethingElseAreNamedWhateverWasAskedFor) {
  const struct {
    std::string bytes;
    const char* message;
  } kOthers[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 99\n",
       "file is a git-lfs pointer, not the file itself"},
      {"<!DOCTYPE html><html></html>", "file is an HTML page"},
      {"<?xml version='1.0'?><Error/>", "file is an XML document"},
      {std::string("\x1f\x8b\x08\0\0\0\0\0", 8), "file is gzip-compressed"},
      {std::string("PK\3\4", 4) + std::string(40, '\1'), "file is a zip archive"},
      {std::string("\x80\4\x95\x10\0\0\0\0\0\0\0", 11), "file is a Python pickle, which is never executed"},
      {std::string("GGUF\3\0\0\0", 8), "file is a GGUF model"},
      {"\x89HDF\r\n\x1a\n", "file is an HDF5 file"},
      {"PAR1....PAR1", "file is a Parquet file"},
      {Bytes<int32_t>({2, 7, 7, 2, 8, 8}), "file is an .fvecs file"},
  };
  for (const auto& other : kOthers) {
    for (const char* name : {"f.safetensors", "f.npy", "f.bin"}) {
      EXPECT_THAT(LoadBytes(name, other.bytes),
                  Fails(kDataLoss, AllOf(StartsWith(folder_.Path(name)), HasSubstr(other.message))));
    }
    for (const char* format : {"safetensors", "npy", "fbin"}) {
      EXPECT_THAT(LoadBytes("f", other.bytes, std::string("format=") + format),
                  Fails(kDataLoss, HasSubstr(other.message)));
    }
  }
}

TEST_F(LoadTableTest, RawRowsMayBeginWithAShortMagicButNotWithALongOne) {
  const std::string raw = "format=raw,dtype=F32,dim=1";
  for (const std::string& bytes : {std::string("\x1f\x8b\x08\0\0\0\0\0", 8), std::string("\x80\4\x95\x10\0\0\0\0", 8),
                                   std::string("PK\3\4\1\1\1\1", 8), std::string("GGUFGGUF")}) {
    EXPECT_THAT(LoadBytes("f", bytes, raw), Succeeds());
  }
  EXPECT_THAT(LoadBytes("f", "version https://git-lfs.github.com/spec/v1\n\n", raw),
              Fails(kDataLoss, HasSubstr("git-lfs pointer")));
  EXPECT_THAT(LoadBytes("f", "<!DOCTYPE html><html>   ", raw), Fails(kDataLoss, HasSubstr("HTML page")));
}

TEST_F(LoadTableTest, RawNeedsItsOptionsAndASizeThatDivides) {
  EXPECT_THAT(LoadBytes("f.raw", kRows), Fails(kInvalid, HasSubstr("f.raw: format raw needs dtype=")));
  EXPECT_THAT(LoadBytes("f.raw", kRows, "dtype=F32"), Fails(kInvalid, HasSubstr("needs dim=")));
  EXPECT_THAT(LoadBytes("f.raw", kRows, "dtype=F32,dim=3"), Succeeds());
  EXPECT_THAT(LoadBytes("f.bin", kRows, "dtype=F32,dim=3"), Succeeds());
  EXPECT_THAT(LoadBytes("f.raw", kRows, "dtype=F32,dim=4"), Fails(kDataLoss, HasSubstr("no multiple of a row's 16")));
  EXPECT_THAT(LoadBytes("f.raw", "", "dtype=F32,dim=4"), Fails(kDataLoss, HasSubstr("file is empty")));
}

TEST_F(LoadTableTest, OptionsOfAnotherFormatAreRefusedOnceTheFormatIsKnown) {
  EXPECT_THAT(LoadBytes("f", kSafetensors, "dtype=F32"),
              Fails(kInvalid, HasSubstr("dtype= is for format=raw, the file is read as safetensors")));
  EXPECT_THAT(LoadBytes("f", kNpy, "dim=3"),
              Fails(kInvalid, HasSubstr("dim= is for format=raw, the file is read as npy")));
  EXPECT_THAT(LoadBytes("f", kFbin, "tensor=e"),
              Fails(kInvalid, HasSubstr("tensor= is for format=safetensors, the file is read as fbin")));
}

TEST_F(LoadTableTest, UnknownBytesUnderAnUnknownNameAreSaidToBeSo) {
  EXPECT_THAT(LoadBytes("f.bin", kRows),
              Fails(kDataLoss, AllOf(HasSubstr("format not recognised"), HasSubstr("format=safetensors"))));
  EXPECT_THAT(LoadBytes("f.bin", ""), Fails(kDataLoss, HasSubstr("file ends at byte 0")));
  EXPECT_THAT(LoadBytes("f.npy", kRows), Fails(kDataLoss, HasSubstr("wanted the npy magic")));
}

// ---- Tensors ----

TEST_F(LoadTableTest, TheNamedTensorIsLoadedFromItsOwnRange) {
  const std::string two = Safetensors(
      R"({"a":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]},"b":{"dtype":"F32","shape":[1,3],"data_offsets":[12,24]}})",
      kRows);
  const Result table = LoadBytes("f.safetensors", two, "tensor=b");
  ASSERT_THAT(table, Succeeds());
  EXPECT_EQ(std::memcmp((*table)->rows(), kRows.data() + 12, 12), 0);
  EXPECT_THAT(
      LoadBytes("f.safetensors", two),
      Fails(
          kDataLoss,
          HasSubstr("2 2-D tensors that may be the table, name one with tensor=: \"a\" F32 [1, 3], \"b\" F32 [1, 3]")));
  EXPECT_THAT(LoadBytes("f.safetensors", two, "tensor=c"),
              Fails(kDataLoss, HasSubstr("no tensor \"c\", it has \"a\" F32 [1, 3]")));
}

TEST_F(LoadTableTest, EmptyAndOversizedTablesAreRefusedWithTheLimits) {
  const std::string empty = Safetensors(R"({"e":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}})", "");
  EXPECT_THAT(LoadBytes("f.safetensors", empty),
              Fails(kDataLoss, HasSubstr("table has 0 rows of width 3, allowed are 1..2147483647")));
  for (const auto& [name, bytes] :
       {std::pair("f.safetensors", kSafetensors), std::pair("f.npy", kNpy), std::pair("f.fbin", kFbin)}) {
    EXPECT_THAT(LoadBytes(name, bytes, "", {.max_rows = 1, .max_dim = 3}),
                Fails(kDataLoss, HasSubstr("table has 2 rows of width 3, allowed are 1..1 rows (--max-rows)")));
    EXPECT_THAT(LoadBytes(name, bytes, "", {.max_rows = 2, .max_dim = 2}),
                Fails(kDataLoss, HasSubstr("of width 1..2 (--max-dim)")));
    EXPECT_THAT(LoadBytes(name, bytes, "", {.max_rows = 2, .max_dim = 3}), Succeeds());
  }
}

// ---- Values ----

TEST_F(LoadTableTest, OneNanIsNamedAndRefusedUnlessAllowed) {
  std::vector<float> values(20000 * 5, 1.0f);
  values[12345 * 5 + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  const std::string raw = "format=raw,dtype=F32,dim=5";
  EXPECT_THAT(LoadBytes("f", bytes, raw),
              Fails(kDataLoss, HasSubstr(": row 12345, column 3 is NaN; 1 non-finite value")));
  EXPECT_THAT(LoadBytes("f", bytes, raw + ",allow-non-finite=false"), Fails(kDataLoss, HasSubstr("row 12345")));
  const Result table = LoadBytes("f", bytes, raw + ",allow-non-finite=true");
  ASSERT_THAT(table, Succeeds());
  EXPECT_THAT((*table)->non_finite_rows(), ElementsAre(12345));
  EXPECT_FALSE((*table)->IsFinite(12345));
  EXPECT_EQ(std::memcmp((*table)->rows(), bytes.data(), bytes.size()), 0);
}

// ---- Vocabularies ----

TEST_F(LoadTableTest, AVocabularyOfAnotherCountIsRefusedBeforeTheRowsAreRead) {
  folder_.Write("three.txt", "a\nb\nc\n");
  const absl::StatusOr<TableOptions> options =
      ParseTableOptions("t=" + folder_.Write("f.safetensors", kSafetensors) + ",vocab=three.txt");
  ASSERT_THAT(options, Succeeds());
  bool read = false;
  EXPECT_THAT(LoadTable(*options, {}, pool_, [&](int64_t, int64_t) { read = true; }),
              Fails(kDataLoss, folder_.Path("three.txt") + ": file has 3 keys (one a line), the table has 2 rows"));
  EXPECT_FALSE(read);
  folder_.Write("same.txt", "a\na\n");
  EXPECT_THAT(Load(folder_.Path("f.safetensors"), "vocab=same.txt"),
              Fails(kDataLoss, HasSubstr("line 2 repeats the key of line 1")));
}

TEST_F(LoadTableTest, FilesThatHoldTheirKeysAreRecognisedUnderAnyName) {
  const std::string binary = "2 3\na " + kRows.substr(0, 12) + "b " + kRows.substr(12);
  const std::string text = "2 3\na 1 2 3\nb 4 5 6\n";
  const std::string glove = text.substr(4);
  const Pair kContents[] = {{"word2vec", &binary, TableFormat::kWord2vec},
                            {"word2vec-text", &text, TableFormat::kWord2vecText},
                            {"glove", &glove, TableFormat::kGlove}};
  for (const Pair& content : kContents) {
    for (const std::string name : {"f.bin", "f.vec", "f.txt", "f.npy", "f.raw", "f"}) {
      for (const std::string& options : {std::string(), std::string("format=") + content.name}) {
        const Result table = LoadBytes(name, *content.bytes, options);
        ASSERT_THAT(table, Succeeds()) << content.name << " as " << name;
        EXPECT_EQ((*table)->format(), content.format);
        EXPECT_EQ(std::memcmp((*table)->rows(), kRows.data(), kRows.size()), 0);
        EXPECT_EQ((*table)->vocabulary()->Find("b"), 1);
        EXPECT_EQ((*table)->dtype(), Dtype::kF32);
      }
    }
    EXPECT_THAT(LoadBytes("f", *content.bytes, "vocab=keys.txt"),
                Fails(kInvalid,
                      HasSubstr(std::string("vocab= is for files without keys, the file is read as ") + content.name)));
  }
  EXPECT_THAT(LoadBytes("f.npy", kNpy, "duplicate-keys=first"),
              Fails(kInvalid, HasSubstr("duplicate-keys= needs vocab=, the file is read as npy, which holds no keys")));
}

TEST_F(LoadTableTest, AKeyOfTwoRowsIsRefusedWithBothPlacesOrStaysWithTheFirst) {
  const std::string rows = "a 1 2 3\nb 4 5 6\na 7 8 9\n";
  folder_.Write("same.txt", "x\nx\n");
  const struct {
    const char* name;
    std::string bytes;
    std::string options;
    const char* message;
    int64_t second;
  } kCases[] = {
      {"f.txt", rows, "", "line 3 repeats the key of line 1: \"a\"", 2},
      {"f.vec", "3 3\n" + rows, "", "line 4 repeats the key of line 2: \"a\"", 2},
      {"f.bin", "2 3\na " + kRows.substr(0, 12) + "a " + kRows.substr(12), "", "row 1 repeats the key of row 0: \"a\"",
       1},
      {"f.safetensors", kSafetensors, "vocab=same.txt", "line 2 repeats the key of line 1: \"x\"", 1},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(LoadBytes(c.name, c.bytes, c.options), Fails(kDataLoss, HasSubstr(c.message)));
    const Result table =
        LoadBytes(c.name, c.bytes, c.options + (c.options.empty() ? "" : ",") + "duplicate-keys=first");
    ASSERT_THAT(table, Succeeds());
    EXPECT_EQ((*table)->vocabulary()->duplicate_keys(), 1);
    EXPECT_EQ((*table)->vocabulary()->KeyOf(c.second), "");
    EXPECT_EQ((*table)->vocabulary()->Find((*table)->vocabulary()->KeyOf(0)), 0);
  }
}

// ---- The file changes ----

TEST_F(LoadTableTest, TheDefaultRowIsAnIdOrAKeyOfTheTable) {
  folder_.Write("keys.txt", "a\n<unk>\n");
  EXPECT_EQ((*LoadBytes("f.safetensors", kSafetensors))->default_row(), std::nullopt);
  EXPECT_EQ((*LoadBytes("f.safetensors", kSafetensors, "default-row=0"))->default_row(), 0);
  EXPECT_EQ((*LoadBytes("f.safetensors", kSafetensors, "default-row=1"))->default_row(), 1);
  EXPECT_EQ((*LoadBytes("f.safetensors", kSafetensors, "default-row=<unk>,vocab=keys.txt"))->default_row(), 1);
  EXPECT_EQ((*LoadBytes("g.txt", "a 1 2\nb 3 4\n", "format=glove,default-row=b"))->default_row(), 1);
}

TEST_F(LoadTableTest, ADefaultRowThatDoesNotExistIsRefused) {
  folder_.Write("keys.txt", "a\n<unk>\n");
  const auto refusal = [&](const std::string& options) {
    return std::string(LoadBytes("f.safetensors", kSafetensors, options).status().message());
  };
  EXPECT_THAT(refusal("default-row=2"), HasSubstr("default-row=2: the table has 2 rows, ids end at 1"));
  EXPECT_THAT(refusal("default-row=99999999999999999999"), HasSubstr("the table has 2 rows, ids end at 1"));
  EXPECT_THAT(refusal("default-row=-1"), HasSubstr("default-row=-1 is no row id, and the table has no keys (vocab=)"));
  EXPECT_THAT(refusal("default-row=unk,vocab=keys.txt"),
              HasSubstr("default-row=unk is neither a row id nor a key of the table"));
  EXPECT_THAT(std::string(LoadBytes("g.txt", "a 1 2\nb 3 4\n", "format=glove,default-row=c").status().message()),
              HasSubstr("default-row=c is neither a row id nor a key of the table"));
}

TEST_F(LoadTableTest, AFileThatGrowsDuringTheReadIsRefused) {
  const std::string path = folder_.Write("f.safetensors", kSafetensors);
  const absl::StatusOr<TableOptions> options = ParseTableOptions("t=" + path);
  ASSERT_THAT(options, Succeeds());
  EXPECT_THAT(LoadTable(*options, {}, pool_,
                        [&](int64_t, int64_t) { std::filesystem::resize_file(path, kSafetensors.size() + 1); }),
              Fails(kDataLoss, HasSubstr(path + ": changed while being read")));
}

TEST_F(LoadTableTest, WhatHappensToTheFileLaterChangesNothing) {
  const std::string path = folder_.Write("f.safetensors", kSafetensors);
  const Result table = Load(path);
  ASSERT_THAT(table, Succeeds());
  std::filesystem::resize_file(path, 0);
  std::filesystem::remove(path);
  EXPECT_EQ(std::memcmp((*table)->rows(), kRows.data(), kRows.size()), 0);
}

TEST_F(LoadTableTest, MessagesStayOnOneLine) {
  const std::string bytes = Safetensors(R"({"a\tb":{"dtype":"F\nX","shape":[1],"data_offsets":[0,1]}})", "1");
  EXPECT_THAT(LoadBytes("a\nb.safetensors", bytes), Fails(kDataLoss, Not(HasSubstr("\n"))));
}

}  // namespace
}  // namespace embedding
