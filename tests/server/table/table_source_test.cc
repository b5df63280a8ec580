#include "server/table/table_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

TableOptions OptionsOf(const std::string& path, const std::string& more = "") {
  return *ParseTableOptions("t=" + path + more);
}

TEST(TableSourceTest, FilesAndWhatIsNotThereAreGivenBackAsTheyAre) {
  const TempFolder folder;
  for (const std::string& path : {folder.Write("t.npy", "x"), folder.Path("missing")}) {
    const absl::StatusOr<TableSource> source = FindTableSource(OptionsOf(path, ",metric=dot"));
    ASSERT_THAT(source, Succeeds());
    EXPECT_EQ(source->options.path, path);
    EXPECT_EQ(source->options.metric, TableMetric::kDot);
    EXPECT_EQ(source->version, 0u);
  }
}

// Which files a folder holds, and what is found in it.
struct Case {
  const char* name;
  std::vector<std::string> files;
  const char* options;
  uint64_t version;
  const char* table;       // relative; or, where the version is 0, part of the message
  const char* vocabulary;  // "": none
};

class TableSourceFolderTest : public ::testing::TestWithParam<Case> {};

TEST_P(TableSourceFolderTest, FindsTheHighestVersion) {
  const TempFolder folder;
  std::filesystem::create_directories(folder.Path("models"));
  for (const std::string& file : GetParam().files) {
    const std::string name = "models/" + file;
    std::filesystem::create_directories(std::filesystem::path(folder.Path(name)).parent_path());
    if (file.back() != '/') folder.Write(name, "x");
  }
  const absl::StatusOr<TableSource> source = FindTableSource(OptionsOf(folder.Path("models/"), GetParam().options));
  if (GetParam().version == 0) {
    EXPECT_THAT(source, Fails(kDataLoss, HasSubstr(GetParam().table)));
    return;
  }
  ASSERT_THAT(source, Succeeds());
  EXPECT_EQ(source->version, GetParam().version);
  EXPECT_EQ(source->options.path, folder.Path("models/") + GetParam().table);
  EXPECT_EQ(source->options.vocab, GetParam().vocabulary);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TableSourceFolderTest,
    ::testing::Values(
        Case{"NumbersCompareAsNumbers", {"9/t.npy", "10/t.npy"}, "", 10, "10/t.npy", ""},
        Case{"VocabularyBesideTheTable", {"3/t.npy", "3/vocab.txt"}, "", 3, "3/t.npy", "vocab.txt"},
        Case{"VocabularyNamedAfterTheTable",
             {"3/words.safetensors", "3/words.vocab.txt"},
             "",
             3,
             "3/words.safetensors",
             "words.vocab.txt"},
        Case{"GivenVocabulary", {"3/t.npy", "3/keys.txt", "3/README.md"}, ",vocab=keys.txt", 3, "3/t.npy", "keys.txt"},
        Case{"GivenVocabularyAmongSeveral",
             {"3/t.safetensors", "3/vocab.json", "3/tokenizer.json"},
             ",vocab=tokenizer.json",
             3,
             "3/t.safetensors",
             "tokenizer.json"},
        Case{"GloveText", {"1/glove.6B.50d.txt"}, "", 1, "1/glove.6B.50d.txt", ""},
        Case{"SetOfFiles",
             {"1/m.safetensors.index.json", "1/m-1.safetensors", "1/m-2.safetensors"},
             "",
             1,
             "1/m.safetensors.index.json",
             ""},
        Case{"OtherNamesAreLeftAlone",
             {"2/t.npy", "3.partial/t.npy", ".4/t.npy", "05/t.npy", "0/t.npy", "v6/t.npy", "latest/t.npy"},
             "",
             2,
             "2/t.npy",
             ""},
        Case{"AFileIsNoVersion", {"2/t.npy", "7"}, "", 2, "2/t.npy", ""},
        Case{"NumbersBeyond63BitsAreRefused",
             {"1/t.npy", "9223372036854775808/t.npy"},
             "",
             0,
             "models/: holds the folder \"9223372036854775808\", versions go up to 9223372036854775807",
             ""},
        Case{"NumbersBeyond64BitsAreRefused",
             {"18446744073709551617/t.npy"},
             "",
             0,
             "holds the folder \"18446744073709551617\", versions go up to 9223372036854775807",
             ""},
        Case{"TheLargestNumber",
             {"9223372036854775807/t.npy", "1/t.npy"},
             "",
             9223372036854775807u,
             "9223372036854775807/t.npy",
             ""},
        Case{"OtherFilesInAVersionAreLeftAlone",
             {"1/t.npy", "1/README.md", "1/config.json", "1/.t.npy", "1/_t.npy", "1/t.npy.sha256"},
             "",
             1,
             "1/t.npy",
             ""},
        Case{"NoVersion", {"t.npy", "x/t.npy"}, "", 0, "models/: is a folder without a version", ""},
        Case{"EmptyFolder", {}, "", 0, "is a folder without a version", ""},
        Case{"EmptyVersion",
             {"1/t.npy", "2/"},
             "",
             0,
             "models/2: a version's folder must hold one table, found none that ends as one",
             ""},
        Case{"TwoTables",
             {"2/a.npy", "2/b.fbin"},
             "",
             0,
             "models/2: a version's folder must hold one table, found 2: \"a.npy\", \"b.fbin\"",
             ""},
        Case{"ManyTables", {"2/a.npy", "2/b.npy", "2/c.npy", "2/d.npy", "2/e.npy"}, "", 0, "\"d.npy\" and 1 more", ""},
        Case{"TwoVocabularies",
             {"2/a.npy", "2/tokenizer.json", "2/vocab.json"},
             "",
             0,
             "models/2: a version's folder may hold one vocabulary, found 2: \"tokenizer.json\", \"vocab.json\"; say "
             "which with vocab=",
             ""}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace embedding
