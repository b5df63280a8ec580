// Every format under every other format's name, and under every format=: read as what it is, or refused with a message
// that says what it looks like, never served as noise.
#include <gtest/gtest.h>

#include <cstring>

#include "server/table/load_table.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Result = absl::StatusOr<std::unique_ptr<EmbeddingTable>>;

// The rows [[1, 2, 3], [4, 5, 6]].
const std::string kRows = Bytes<float>({1, 2, 3, 4, 5, 6});

std::string Npy() {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  return std::string("\x93NUMPY\1\0", 8) + Bytes<uint16_t>({static_cast<uint16_t>(header.size())}) + header + kRows;
}

struct Content {
  const char* format;      // of format=
  const char* looks_like;  // in messages
  const char* extension;   // its own
  std::string bytes;
  std::string rows = kRows;  // in memory
};

// Those that some bytes give away. Raw rows and the formats of one header but another element are below.
std::vector<Content> Contents() {
  return {
      {"safetensors", "a safetensors file", ".safetensors",
       Safetensors(R"({"emb":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", kRows)},
      {"safetensors", "the index of a safetensors set", ".index.json",
       R"({"metadata":{"total_size":24},"weight_map":{"emb":"shard-1.safetensors"}})"},
      {"npy", "a NumPy .npy file", ".npy", Npy()},
      {"fbin", "an .fbin file", ".fbin", Bytes<uint32_t>({2, 3}) + kRows},
      {"word2vec", "a word2vec binary file", ".bin",
       "2 3\na " + kRows.substr(0, 12) + "\nb " + kRows.substr(12) + "\n"},
      {"word2vec-text", "a word2vec text file", ".vec", "2 3\na 1 2 3\nb 4 5 6\n"},
      {"glove", "a GloVe text file", ".txt", "a 1 2 3\nb 4 5 6\n"},
  };
}

const char* const kFormats[] = {"safetensors", "npy", "fbin", "word2vec", "word2vec-text", "glove"};
const char* const kExtensions[] = {".safetensors", ".index.json", ".npy", ".fbin", ".bin",
                                   ".vec",         ".txt",        ".raw", ".dat",  ""};

class PairingTest : public ::testing::Test {
 protected:
  PairingTest() { folder_.Write("shard-1.safetensors", Contents()[0].bytes); }

  Result Load(const std::string& name, const std::string& bytes, const std::string& options = "") {
    const absl::StatusOr<TableOptions> parsed =
        ParseTableOptions("t=" + folder_.Write(name, bytes) + (options.empty() ? "" : "," + options));
    if (!parsed.ok()) return parsed.status();
    return LoadTable(*parsed, {}, pool_);
  }

  TempFolder folder_;
  WorkerPool pool_{2};
};

TEST_F(PairingTest, ContentUnderAnyNameIsReadAsWhatItIs) {
  for (const Content& content : Contents()) {
    for (const std::string extension : kExtensions) {
      SCOPED_TRACE(std::string(content.looks_like) + " named " + extension);
      const Result table = Load("f" + extension, content.bytes);
      ASSERT_THAT(table, Succeeds());
      EXPECT_EQ(TableFormatName((*table)->format()), content.format);
      ASSERT_EQ(static_cast<size_t>((*table)->size_bytes()), content.rows.size());
      EXPECT_EQ(std::memcmp((*table)->rows(), content.rows.data(), content.rows.size()), 0);
    }
  }
}

TEST_F(PairingTest, ContentUnderAnotherFormatIsRefusedAndNamed) {
  for (const Content& content : Contents()) {
    for (const std::string format : kFormats) {
      for (const std::string extension : kExtensions) {
        SCOPED_TRACE(std::string(content.looks_like) + " named " + extension + " with format=" + format);
        const Result table = Load("f" + extension, content.bytes, "format=" + format);
        if (format == content.format) {
          ASSERT_THAT(table, Succeeds());
          EXPECT_EQ(std::memcmp((*table)->rows(), content.rows.data(), content.rows.size()), 0);
        } else {
          EXPECT_THAT(table, Fails(kDataLoss, AllOf(HasSubstr("format=" + format + " was asked for"),
                                                    HasSubstr(content.looks_like))));
        }
      }
    }
    EXPECT_THAT(Load("f" + std::string(content.extension), content.bytes, "format=raw,dtype=F16,dim=1"),
                Fails(kDataLoss, AllOf(HasSubstr("format=raw was asked for"), HasSubstr(content.looks_like))));
  }
}

TEST_F(PairingTest, RawRowsAreReadOnlyWhereRawIsAskedFor) {
  for (const std::string extension : kExtensions) {
    const Result raw = Load("f" + extension, kRows, "format=raw,dtype=F32,dim=3");
    ASSERT_THAT(raw, Succeeds());
    EXPECT_EQ(std::memcmp((*raw)->rows(), kRows.data(), kRows.size()), 0);
    EXPECT_THAT(Load("f" + extension, kRows), Fails(extension == ".raw" ? kInvalid : kDataLoss, ::testing::_))
        << extension;
    for (const std::string format : kFormats) {
      EXPECT_THAT(Load("f" + extension, kRows, "format=" + format), Fails(kDataLoss, ::testing::_)) << format;
    }
  }
}

// [2, 4] in each of the formats whose header has no magic: only their numbers and sizes tell, and those of .u8bin and
// .i8bin not even that.
TEST_F(PairingTest, FormatsWithoutAMagicAreReadAsThemselvesAlone) {
  const std::string head = Bytes<uint32_t>({2, 4});
  const std::string width = Bytes<int32_t>({4});
  const std::string f32 = Bytes<float>({1, 2, 3, 4, 5, 6, 7, 8});
  const std::string f16 = Bytes<uint16_t>({0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800});
  const std::string u8 = Bytes<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8});
  const struct {
    std::string format, bytes, rows;
  } kContents[] = {{"fbin", head + f32, f32},
                   {"f16bin", head + f16, f16},
                   {"u8bin", head + u8, u8},
                   {"i8bin", head + u8, u8},
                   {"fvecs", width + f32.substr(0, 16) + width + f32.substr(16), f32},
                   {"bvecs", width + u8.substr(0, 4) + width + u8.substr(4), u8}};
  for (const auto& content : kContents) {
    for (const std::string format : {"fbin", "f16bin", "u8bin", "i8bin", "fvecs", "bvecs", "safetensors", "npy",
                                     "word2vec", "word2vec-text", "glove"}) {
      SCOPED_TRACE(content.format + " as " + format);
      const bool same = format == content.format;
      const bool no_byte_tells =
          (format == "u8bin" || format == "i8bin") && content.rows == u8 && content.format != "bvecs";
      const Result asked = Load("f", content.bytes, "format=" + format);
      const Result named = Load("f." + format, content.bytes);
      if (same || no_byte_tells) {
        for (const Result* table : {&asked, &named}) {
          ASSERT_THAT(*table, Succeeds());
          EXPECT_EQ(TableFormatName((**table)->format()), format);
          EXPECT_EQ(std::memcmp((**table)->rows(), content.rows.data(), content.rows.size()), 0);
        }
      } else {
        EXPECT_THAT(asked, Fails(kDataLoss, ::testing::_));
        // Under a name that says nothing, .fbin is known by its size.
        if (named.ok()) {
          EXPECT_EQ(content.format, "fbin");
          EXPECT_EQ((*named)->format(), TableFormat::kFbin);
        }
      }
    }
  }
}

TEST_F(PairingTest, OtherContentIsNotTakenForAFormatWithoutAMagic) {
  for (const Content& content : Contents()) {
    if (std::string(content.format) == "fbin") continue;
    for (const std::string format : {"f16bin", "u8bin", "i8bin", "fvecs", "bvecs"}) {
      SCOPED_TRACE(std::string(content.looks_like) + " as " + format);
      EXPECT_THAT(
          Load("f", content.bytes, "format=" + format),
          Fails(kDataLoss, AllOf(HasSubstr("format=" + format + " was asked for"), HasSubstr(content.looks_like))));
      const Result named = Load("f." + format, content.bytes);
      ASSERT_THAT(named, Succeeds());
      EXPECT_EQ(TableFormatName((*named)->format()), content.format);
      EXPECT_THAT(Load("f." + format, kRows), Fails(kDataLoss, ::testing::_));
    }
  }
}

// What people give as a table by mistake.
TEST_F(PairingTest, FilesThatAreNoTablesAreNamed) {
  const struct {
    std::string bytes;
    const char* message;
  } kOthers[] = {
      {"{\"the\": 0, \"of\": 1}", "file is JSON, not a table: a vocabulary goes behind vocab="},
      {Bytes<int32_t>({793712314, 12}) + std::string(100, '\1'), "file is a fastText model"},
      {"the\nof\nand\n", "line 1 is \"the\", a line of GloVe text is a key and numbers"},
      {"word,x,y\nthe,0.5,0.25\n", "line 1 is \"word,x,y\""},
      {"0.5 0.25 1.5\n0.125 2.5 3.5\n", "every line begins with a decimal fraction where its key should be"},
      {"\xEF\xBB\xBFthe 1 2\n", "byte order mark"},
      {std::string("\xFF\xFEt\0h\0e\0 \0\x31\0\n\0", 14), "line 1 is"},
  };
  for (const auto& other : kOthers) {
    EXPECT_THAT(Load("f.txt", other.bytes), Fails(kDataLoss, HasSubstr(other.message)));
  }
}

// (GloVe text that ends with a line is whole as far as anybody can tell.)
TEST_F(PairingTest, DamagedFilesAreRefusedUnderEveryName) {
  for (const Content& content : Contents()) {
    for (const std::string extension : {content.extension, ".npy", ".txt"}) {
      for (const size_t size : {size_t{1}, content.bytes.size() / 2 + 1, content.bytes.size() - 2}) {
        EXPECT_THAT(Load("f" + extension, content.bytes.substr(0, size)), Fails(kDataLoss, ::testing::_))
            << content.looks_like << " named " << extension << " cut at " << size;
      }
    }
  }
}

}  // namespace
}  // namespace embedding
