// convert and inspect as a caller sees them: exit codes, files, output.
#include "client/cli/file_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/atomic_file.h"
#include "client/cli/table_file.h"
#include "tests/server/table/files.h"

namespace embedding::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kTables = EMBEDDING_GOLDEN "/tables/";
const std::string kConverted = EMBEDDING_GOLDEN "/converted/";

class FileCommandsTest : public ::testing::Test {
 protected:
  int Run(const std::vector<std::string>& arguments) {
    out_.str("");
    err_.str("");
    return RunFileCommand(arguments, out_, err_).value_or(-1);
  }

  std::string Out(const std::string& name) const { return folder_.Path(name); }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Out(name)); }
  size_t Files() const {
    const std::filesystem::directory_iterator files(std::filesystem::path(Out("x")).parent_path());
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  TempFolder folder_;
  std::ostringstream out_;
  std::ostringstream err_;
};

struct Source {
  const char* dtype;  // in memory
  const char* file;   // with options
};

constexpr Source kSources[] = {
    {"F32", "f32.safetensors"},
    {"F32", "f64.safetensors"},
    {"F32", "f4.npy"},
    {"F32", "f8-big-endian.npy"},
    {"F32", "table.fbin"},
    {"F32", "table.fvecs"},
    {"F32", "f32.raw,format=raw,dtype=F32,dim=5"},
    {"F32", "many.safetensors,tensor=embeddings.word"},
    {"F16", "f16.safetensors"},
    {"F16", "f2.npy"},
    {"F16", "table.f16bin"},
    {"BF16", "bf16.safetensors"},
    {"BF16", "quantised.safetensors"},
    {"I8", "i8.safetensors"},
    {"I8", "i1.npy"},
    {"I8", "table.i8bin"},
    {"I8", "quantised.safetensors,tensor=e.codes"},
    {"U8", "u8.safetensors"},
    {"U8", "table.u8bin"},
    {"U8", "table.bvecs"},
    {"F8_E4M3", "f8_e4m3.safetensors"},
    {"F8_E5M2", "f8_e5m2.raw,dtype=F8_E5M2,dim=5"},
};

// The very bytes of numpy and safetensors (golden/converted/make_converted.py), where the format holds the dtype.
TEST_F(FileCommandsTest, EverySourceBecomesEveryFormatAsItsOwnLibraryWritesIt) {
  int converted = 0;
  for (const Source& source : kSources) {
    for (const char* extension : {".safetensors", ".npy", ".fbin"}) {
      for (const std::string to : {"", "F32", "F16", "BF16"}) {
        SCOPED_TRACE(std::string(source.file) + " to " + to + extension);
        std::filesystem::remove(Out(std::string("out") + extension));
        std::vector<std::string> arguments = {"convert", kTables + source.file, Out(std::string("out") + extension)};
        if (!to.empty()) arguments.insert(arguments.end(), {"--dtype", to});
        // A tensor bears the name that it had where that was given.
        const bool is_named = std::string(source.file).find("tensor=") != std::string::npos;
        const std::string stem =
            to.empty() || to == source.dtype ? source.dtype : std::string(source.dtype) + "-to-" + to;
        const std::string golden = kConverted + stem + extension;
        const int code = Run(arguments);
        if (std::filesystem::exists(golden)) {
          ASSERT_EQ(code, 0) << err_.str();
          if (!is_named || std::string(extension) != ".safetensors") {
            EXPECT_EQ(ReadFile(Out(std::string("out") + extension)), ReadFile(golden));
          }
          EXPECT_THAT(out_.str(), HasSubstr("7 x 5 " + (to.empty() ? source.dtype : to)));
          ++converted;
        } else {
          const Dtype written = *DtypeFromName(to.empty() ? source.dtype : to);
          EXPECT_EQ(code, CheckHolds(*FileFormatOf(extension), written).ok() ? 3 : 2) << err_.str();
          EXPECT_FALSE(Exists(std::string("out") + extension));
        }
      }
    }
  }
  EXPECT_GT(converted, 100);
  EXPECT_LE(Files(), 3u);  // nothing temporary
}

TEST_F(FileCommandsTest, FormatsThatCannotHoldTheDtypeNameDtypeF32) {
  EXPECT_EQ(Run({"convert", kTables + "bf16.safetensors", Out("a.npy")}), 2);
  EXPECT_EQ(err_.str(),
            "embedding-cli: .npy files hold F32, F16, I8 and U8, not BF16: add --dtype F32, or write .safetensors, "
            "which holds every dtype\n");
  EXPECT_EQ(Run({"convert", kTables + "f8_e4m3.safetensors", Out("a.fbin")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr(".fbin files hold F32, not F8_E4M3: add --dtype F32"));
  EXPECT_EQ(Run({"convert", kTables + "f32.safetensors", Out("a.npy"), "--dtype", "BF16"}), 2);
  EXPECT_EQ(Run({"convert", kTables + "f8_e4m3.safetensors", Out("a.fbin"), "--dtype", "F32"}), 0);
  EXPECT_EQ(Files(), 1u);
}

TEST_F(FileCommandsTest, AValueBeyondTheDtypeIsAnErrorAndLeavesNothing) {
  const std::string in = folder_.Write("in.raw", Bytes<float>({1, 2, 65504, 65520}));
  EXPECT_EQ(Run({"convert", in + ",dtype=F32,dim=2", Out("a.safetensors"), "--dtype", "F16"}), 3);
  EXPECT_EQ(err_.str(), "embedding-cli: row 1, column 1 is 65520, F16 ends at +-65504\n");
  EXPECT_EQ(Files(), 1u);
  folder_.Write("fits.raw", Bytes<float>({1, 2, 65504, 65519}));
  EXPECT_EQ(Run({"convert", Out("fits.raw") + ",dtype=F32,dim=2", Out("a.safetensors"), "--dtype", "F16"}), 0);
}

TEST_F(FileCommandsTest, KeysGoBesideTheTableAndComeBack) {
  ASSERT_EQ(Run({"convert", kTables + "f32.safetensors,vocab=keys.txt", Out("a.npy")}), 0) << err_.str();
  EXPECT_EQ(ReadFile(Out("a.vocab.txt")), ReadFile(kTables + "keys.txt"));
  EXPECT_THAT(out_.str(), HasSubstr("a.vocab.txt: 7 keys\n"));
  ASSERT_EQ(Run({"convert", Out("a.npy") + ",vocab=a.vocab.txt", Out("b.safetensors")}), 0) << err_.str();
  EXPECT_EQ(ReadFile(Out("b.vocab.txt")), ReadFile(kTables + "keys.txt"));
  EXPECT_EQ(ReadFile(Out("b.safetensors")), ReadFile(kConverted + "F32.safetensors"));
  ASSERT_EQ(Run({"convert", Out("a.npy") + ",vocab=a.vocab.txt", Out("c.fbin"), "--no-keys"}), 0) << err_.str();
  EXPECT_FALSE(Exists("c.vocab.txt"));
}

TEST_F(FileCommandsTest, RowsWithoutAKeyAreRefusedUnlessKeysStayOut) {
  folder_.Write("in.raw", Bytes<float>({1, 2}));
  folder_.Write("keys.txt", "good\n\xff\n");
  const std::string in = Out("in.raw") + ",dtype=F32,dim=1,vocab=keys.txt,invalid-keys=skip";
  EXPECT_EQ(Run({"convert", in, Out("a.npy")}), 3);
  EXPECT_EQ(err_.str(),
            "embedding-cli: row 1 has no key, which a file of one key per line cannot hold; --no-keys leaves all keys "
            "out\n");
  EXPECT_FALSE(Exists("a.npy"));
  EXPECT_EQ(Run({"convert", in, Out("a.npy"), "--no-keys"}), 0);
}

TEST_F(FileCommandsTest, FilesThatExistAreKeptUnlessForced) {
  const std::string in = kTables + "f32.safetensors,vocab=keys.txt";
  folder_.Write("a.npy", "mine");
  EXPECT_EQ(Run({"convert", in, Out("a.npy")}), 2);
  EXPECT_EQ(err_.str(), "embedding-cli: " + Out("a.npy") + " exists; --force replaces it\n");
  EXPECT_EQ(ReadFile(Out("a.npy")), "mine");
  folder_.Write("b.vocab.txt", "mine");
  EXPECT_EQ(Run({"convert", in, Out("b.npy")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("b.vocab.txt exists"));
  EXPECT_FALSE(Exists("b.npy"));
  EXPECT_EQ(Run({"convert", in, Out("a.npy"), "--force"}), 0);
  EXPECT_EQ(ReadFile(Out("a.npy")), ReadFile(kConverted + "F32.npy"));
  // Onto itself: it was read before.
  EXPECT_EQ(Run({"convert", Out("a.npy"), Out("a.npy"), "--force", "--dtype", "F16"}), 0);
  EXPECT_EQ(ReadFile(Out("a.npy")), ReadFile(kConverted + "F32-to-F16.npy"));
  EXPECT_EQ(Files(), 3u);
}

TEST_F(FileCommandsTest, WrongInputsExitWithTheCodeOfTheirKind) {
  const std::string good = kTables + "f32.safetensors";
  const struct {
    std::vector<std::string> arguments;
    int code;
    std::string message;
  } kCases[] = {
      {{"convert"}, 2, "IN is required"},
      {{"convert", good}, 2, "OUT is required"},
      {{"convert", good, Out("a.txt")}, 2, "ends in none of .safetensors, .npy and .fbin"},
      {{"convert", good, Out("a")}, 2, "ends in none of"},
      {{"convert", good, Out("a.npy"), "--dtype", "F64"}, 2, "F64"},
      {{"convert", good, Out("a.npy"), "--dtype", "I8"}, 2, "I8"},
      {{"convert", good, Out("a.npy"), "--froce"}, 2, "unknown flag --froce; did you mean --force?"},
      {{"convert", good, Out("a.npy"), "more"}, 2, "unexpected word \"more\""},
      {{"convert", good + ",vocb=x", Out("a.npy")}, 2, "unknown table option \"vocb\", did you mean vocab?"},
      {{"convert", good + ",dim=3", Out("a.npy")}, 2, "dim= is for format=raw"},
      {{"convert", Out("none.npy"), Out("a.npy")}, 3, "No such file"},
      {{"convert", kTables + "fortran.npy", Out("a.npy")}, 3, "Fortran order"},
      {{"convert", good, Out("no/such/folder.npy")}, 1, "No such file"},
      {{"inspect"}, 2, "FILE is required"},
      {{"inspect", good, "--output", "csv"}, 2, "csv"},
      {{"inspect", ""}, 2, "empty path"},
      {{"inspect", Out("none.npy")}, 3, "No such file"},
      {{"inspect", kTables + "rank1.npy"}, 3, "rank 1"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Run(c.arguments), c.code) << c.message << ": " << err_.str();
    EXPECT_THAT(err_.str(), AllOf(HasSubstr("embedding-cli: "), HasSubstr(c.message)));
    EXPECT_THAT(out_.str(), IsEmpty());
  }
  EXPECT_EQ(Files(), 0u);
}

TEST_F(FileCommandsTest, OtherCommandsAreLeftToTheirOwnParser) {
  EXPECT_EQ(Run({"lookup", "convert"}), -1);
  EXPECT_EQ(Run({}), -1);
  EXPECT_EQ(Run({"--help"}), -1);
  EXPECT_EQ(Run({"--output", "json", "inspect", kTables + "f4.npy"}), 0);
  EXPECT_EQ(Run({"convert", "--help"}), 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("--force"), HasSubstr("Exit codes")));
}

TEST_F(FileCommandsTest, InspectSaysWhatAServerWouldLoad) {
  ASSERT_EQ(Run({"inspect", kTables + "many.safetensors,tensor=embeddings.word,vocab=keys.txt"}), 0) << err_.str();
  for (const char* part : {"many.safetensors", "safetensors", "[7, 5]", "F32", "140", "one for each row", "loads it",
                           "\"naïve\"", "embeddings.word", "position"}) {
    const std::string word = part[0] == '"' ? "naïve" : part;
    EXPECT_THAT(out_.str(), HasSubstr(word));
  }
  // As make_tables.py of golden/tables says.
  EXPECT_THAT(out_.str(), HasSubstr("1c19549cf7b0e7ab35ddb79b64a6b057"));
}

TEST_F(FileCommandsTest, InspectGivesOneJsonDocument) {
  ASSERT_EQ(Run({"inspect", kTables + "f64.safetensors", "--output", "json"}), 0);
  EXPECT_EQ(out_.str(), "{\"path\":\"" + kTables +
                            "f64.safetensors\",\"format\":\"safetensors\",\"rows\":7,\"dim\":5,\"dtype\":\"F32\","
                            "\"source_dtype\":\"F64\",\"bytes\":140,\"has_keys\":false,\"rows_without_key\":0,"
                            "\"zero_rows\":1,\"non_finite_rows\":0,\"first_non_finite_rows\":[],\"fingerprint\":"
                            "\"f89915f44de97f28f474feff697285e7\",\"server_loads_it\":true,\"refusal\":\"\","
                            "\"metadata\":{\"format\":\"np\"},"
                            "\"tensors\":[{\"name\":\"embeddings\",\"dtype\":\"F64\",\"shape\":[7,5]}]}\n");
}

TEST_F(FileCommandsTest, InspectCountsRowsThatAServerRefuses) {
  const std::string in = folder_.Write("in.raw", Bytes<float>({1, 2, NAN, 1, 0, 0, 1, INFINITY})) + ",dtype=F32,dim=2";
  ASSERT_EQ(Run({"inspect", in}), 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("2: 1, 3"), HasSubstr("refuses it: 2 rows hold NaN or infinity, the first is "
                                                                "row 1; a server refuses the table unless "
                                                                "allow-non-finite=true")));
  ASSERT_EQ(Run({"inspect", in + ",allow-non-finite=true"}), 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("2: 1, 3"), HasSubstr("loads it"), Not(HasSubstr("refuses"))));
  ASSERT_EQ(Run({"inspect", in, "--output", "json"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\"non_finite_rows\":2,\"first_non_finite_rows\":[1,3]"));
  EXPECT_THAT(out_.str(), HasSubstr("\"server_loads_it\":false"));
}

TEST_F(FileCommandsTest, InspectListsTheTensorsWhereNoneCanBeChosen) {
  folder_.Write("two.safetensors", Safetensors(R"({"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
                                               R"("b":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}})",
                                               std::string(8, '\0')));
  EXPECT_EQ(Run({"inspect", Out("two.safetensors")}), 3);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("TENSOR"), HasSubstr("[1, 1]")));
  EXPECT_THAT(err_.str(), HasSubstr("name one with tensor="));
}

TEST(AtomicFileTest, NothingIsLeftWithoutCommit) {
  TempFolder folder;
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(folder.Path("a"), false);
    ASSERT_THAT(file, Succeeds());
    EXPECT_THAT(file->Write("abc", 3), Succeeds());
    EXPECT_FALSE(std::filesystem::exists(folder.Path("a")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(folder.Path("a")).parent_path()));
}

TEST(AtomicFileTest, AFileThatAppearsMeanwhileIsNotReplaced) {
  TempFolder folder;
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(folder.Path("a"), false);
  ASSERT_THAT(file, Succeeds());
  folder.Write("a", "theirs");
  EXPECT_THAT(file->Commit(), Fails(kInvalid, HasSubstr("exists; --force replaces it")));
  EXPECT_EQ(ReadFile(folder.Path("a")), "theirs");
}

// numpy.lib.format.write_array_header_1_0 of numpy 1.26.4: the length of the header for each shape.
TEST(FileHeaderTest, NpyHeadersAreAsLongAsNumpyMakesThem) {
  EXPECT_EQ(FileHeader(FileFormat::kNpy, Dtype::kF32, 1, 1, "").size(), 128u);
  EXPECT_EQ(FileHeader(FileFormat::kNpy, Dtype::kI8, 2147483647, 65536, "").size(), 128u);
  EXPECT_EQ(FileHeader(FileFormat::kNpy, Dtype::kF16, 2147483647, 65536, "").substr(10, 74),
            "{'descr': '<f2', 'fortran_order': False, 'shape': (2147483647, 65536), }  ");
}

}  // namespace
}  // namespace embedding::cli
