#include "server/table/safetensors_set.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "server/table/load_table.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

using Result = absl::StatusOr<std::unique_ptr<EmbeddingTable>>;

const std::string kRows = Bytes<float>({1, 2, 3, 4, 5, 6});

// A file with one tensor [2, 3] of F32 and one of rank 1.
std::string Shard(const std::string& table, const std::string& other, const std::string& metadata = "") {
  return Safetensors("{" + metadata + "\"" + table + R"(":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},")" +
                         other + R"(":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})",
                     kRows + "1234");
}

class SafetensorsSetTest : public ::testing::Test {
 protected:
  Result Load(const std::string& options = "", const std::string& name = "m.safetensors.index.json") {
    const absl::StatusOr<TableOptions> parsed =
        ParseTableOptions("t=" + folder_.Path(name) + (options.empty() ? "" : "," + options));
    if (!parsed.ok()) return parsed.status();
    return LoadTable(*parsed, {}, pool_);
  }

  void WriteIndex(const std::string& weight_map, const std::string& name = "m.safetensors.index.json") {
    folder_.Write(name, R"({"metadata": {"total_size": 1}, "weight_map": )" + weight_map + "}");
  }

  TempFolder folder_;
  WorkerPool pool_{2};
};

TEST_F(SafetensorsSetTest, TheTableIsFoundInAnyFileByNameOrAsTheOnlyOne) {
  folder_.Write("m-1.safetensors", Safetensors(R"({"bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  folder_.Write("m-2.safetensors", Shard("emb", "norm", R"("__metadata__":{"format":"pt"},)"));
  WriteIndex(R"({"bias": "m-1.safetensors", "emb": "m-2.safetensors", "norm": "m-2.safetensors"})");
  for (const std::string options : {"", "tensor=emb", "format=safetensors"}) {
    const Result table = Load(options);
    ASSERT_THAT(table, Succeeds());
    EXPECT_EQ((*table)->num_rows(), 2);
    EXPECT_EQ((*table)->format(), TableFormat::kSafetensors);
    EXPECT_EQ(std::memcmp((*table)->rows(), kRows.data(), kRows.size()), 0);
    EXPECT_THAT((*table)->metadata(), UnorderedElementsAre(Pair("format", "pt")));
  }
  // Known by its content under another name.
  std::filesystem::rename(folder_.Path("m.safetensors.index.json"), folder_.Path("index"));
  EXPECT_THAT(Load("", "index"), Succeeds());
}

TEST_F(SafetensorsSetTest, OtherFilesAreNotReadWhenTheTableHasAName) {
  folder_.Write("m-1.safetensors", Shard("emb", "norm"));
  WriteIndex(R"({"emb": "m-1.safetensors", "other": "missing.safetensors"})");
  EXPECT_THAT(Load("tensor=emb"), Succeeds());
  EXPECT_THAT(Load(),
              Fails(kDataLoss, folder_.Path("missing.safetensors") + ": cannot be opened: No such file or directory"));
}

TEST_F(SafetensorsSetTest, SeveralTablesAndUnknownNamesAreListed) {
  folder_.Write("m-1.safetensors", Shard("a", "x"));
  folder_.Write("m-2.safetensors", Shard("b", "y"));
  WriteIndex(R"({"a": "m-1.safetensors", "b": "m-2.safetensors"})");
  const std::string index = folder_.Path("m.safetensors.index.json");
  EXPECT_THAT(Load(), Fails(kDataLoss, AllOf(StartsWith(index),
                                             HasSubstr("2 2-D tensors that may be the table, name one with tensor=: "
                                                       "\"a\" F32 [2, 3], \"b\" F32 [2, 3]"))));
  EXPECT_THAT(Load("tensor=c"), Fails(kDataLoss, index + ": the index has no tensor \"c\", it has \"a\", \"b\""));
}

TEST_F(SafetensorsSetTest, WhatAFileHoldsBeyondTheIndexIsNotLookedAt) {
  folder_.Write("m-1.safetensors", Shard("a", "x"));
  folder_.Write("m-2.safetensors", Shard("b", "y"));
  WriteIndex(R"({"a": "m-1.safetensors", "y": "m-2.safetensors"})");
  EXPECT_THAT(Load(), Succeeds());
  EXPECT_THAT(Load("tensor=b"), Fails(kDataLoss, HasSubstr("the index has no tensor \"b\"")));
}

TEST_F(SafetensorsSetTest, ATensorMustBeWhereTheIndexSays) {
  folder_.Write("m-1.safetensors", Shard("a", "x"));
  folder_.Write("m-2.safetensors", Shard("b", "y"));
  WriteIndex(R"({"a": "m-2.safetensors", "x": "m-1.safetensors"})");
  const std::string message =
      folder_.Path("m-2.safetensors") + ": file has no tensor \"a\", which the index says is in it";
  EXPECT_THAT(Load("tensor=a"), Fails(kDataLoss, message));
  EXPECT_THAT(Load(), Fails(kDataLoss, message));
}

TEST_F(SafetensorsSetTest, FilesStayInTheFolderOfTheIndex) {
  const TempFolder elsewhere;
  const std::string outside = elsewhere.Write("m.safetensors", Shard("emb", "norm"));
  std::filesystem::create_directory(folder_.Path("sub"));
  folder_.Write("sub/m.safetensors", Shard("emb", "norm"));
  for (const std::string& name : {outside, std::string("../m.safetensors"), std::string("sub/m.safetensors"),
                                  std::string("./m.safetensors"), std::string(".."), std::string("."), std::string(),
                                  std::string("m.safetensors\\u0000"), std::string("m\\n"), std::string(256, 'a')}) {
    WriteIndex("{\"emb\": \"" + name + "\"}");
    EXPECT_THAT(Load("tensor=emb"), Fails(kDataLoss, HasSubstr("wanted the plain name of a file beside the index")))
        << name;
  }
  WriteIndex("{\"emb\": \"" + std::string(255, 'a') + "\"}");
  EXPECT_THAT(Load("tensor=emb"), Fails(kDataLoss, HasSubstr("cannot be opened: No such file")));
}

TEST_F(SafetensorsSetTest, LinksAreFollowedForTheIndexAndNotForItsFiles) {
  const TempFolder elsewhere;
  const std::string outside = elsewhere.Write("m.safetensors", Shard("emb", "norm"));
  std::filesystem::create_symlink(outside, folder_.Path("link.safetensors"));
  WriteIndex(R"({"emb": "link.safetensors"})");
  EXPECT_THAT(Load(), Fails(kDataLoss, HasSubstr("link.safetensors: is a symbolic link, which is not followed")));
  folder_.Write("m.safetensors", Shard("emb", "norm"));
  WriteIndex(R"({"emb": "m.safetensors"})", "real.index.json");
  std::filesystem::create_symlink("real.index.json", folder_.Path("current.index.json"));
  EXPECT_THAT(Load("", "current.index.json"), Succeeds());
}

TEST_F(SafetensorsSetTest, FilesThatAreNoRegularOnesAreRefusedAtOnce) {
  ASSERT_EQ(mkfifo(folder_.Path("fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(folder_.Path("folder"));
  WriteIndex(R"({"emb": "fifo"})");
  EXPECT_THAT(Load(), Fails(kDataLoss, folder_.Path("fifo") + ": is a FIFO, not a regular file"));
  WriteIndex(R"({"emb": "folder"})");
  EXPECT_THAT(Load(), Fails(kDataLoss, folder_.Path("folder") + ": is a directory, not a regular file"));
}

TEST_F(SafetensorsSetTest, AFileCutShortIsNamed) {
  const std::string shard = Shard("emb", "norm");
  WriteIndex(R"({"emb": "m.safetensors"})");
  for (size_t size = 0; size < shard.size(); ++size) {
    folder_.Write("m.safetensors", shard.substr(0, size));
    EXPECT_THAT(Load(), Fails(kDataLoss, StartsWith(folder_.Path("m.safetensors") + ": file ends at byte " +
                                                    std::to_string(size))));
  }
}

TEST_F(SafetensorsSetTest, AFileThatGrowsDuringTheReadIsRefused) {
  const std::string path = folder_.Write("m.safetensors", Shard("emb", "norm"));
  WriteIndex(R"({"emb": "m.safetensors"})");
  const absl::StatusOr<TableOptions> options = ParseTableOptions("t=" + folder_.Path("m.safetensors.index.json"));
  ASSERT_THAT(options, Succeeds());
  EXPECT_THAT(LoadTable(*options, {}, pool_, [&](int64_t, int64_t) { std::filesystem::resize_file(path, 1000); }),
              Fails(kDataLoss, StartsWith(path + ": changed while being read")));
}

struct RefusedCase {
  const char* name;
  std::string json;
  const char* message;
};

class RefusedIndexTest : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedIndexTest, NamesTheFault) {
  EXPECT_THAT(ParseSafetensorsIndex(GetParam().json), Fails(kDataLoss, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedIndexTest,
    ::testing::Values(RefusedCase{"Empty", "", "safetensors index is no JSON"},
                      RefusedCase{"Cut", R"({"weight_map": {"a")", "safetensors index is no JSON"},
                      RefusedCase{"NotUtf8", "{\"weight_map\": {\"\xff\": \"a\"}}", "is no JSON"},
                      RefusedCase{"NoMap", R"({"metadata": {}})", "has no weight_map"},
                      RefusedCase{"List", R"([])", "has no weight_map"},
                      RefusedCase{"MapIsAList", R"({"weight_map": []})", "has weight_map [], wanted an object"},
                      RefusedCase{"EmptyMap", R"({"weight_map": {}})", "has an empty weight_map"},
                      RefusedCase{"FileIsANumber", R"({"weight_map": {"a": 1}})", "puts tensor \"a\" into 1, wanted"},
                      RefusedCase{"TensorTwice", R"({"weight_map": {"a": "x", "\u0061": "y"}})",
                                  "holds the key \"a\" twice"},
                      RefusedCase{"MapTwice", R"({"weight_map": {"a": "x"}, "weight_map": {"a": "y"}})",
                                  "holds the key \"weight_map\" twice"}),
    [](const auto& i) { return i.param.name; });

TEST(SafetensorsIndexTest, UpTo10000FilesAreNamed) {
  const auto index = [](int files) {
    std::string json = "{\"weight_map\": {";
    for (int i = 0; i < files; ++i) {
      const std::string number = std::to_string(i);
      json += (i > 0 ? ",\"t" : "\"t") + number + "\":\"f" + number + "\"";
    }
    return json + "}}";
  };
  EXPECT_THAT(ParseSafetensorsIndex(index(10000)), Succeeds());
  EXPECT_THAT(ParseSafetensorsIndex(index(10001)),
              Fails(kDataLoss, HasSubstr("names 10001 files, the limit is 10000")));
}

TEST_F(SafetensorsSetTest, MetadataIsKeptUpTo16KiB) {
  const auto load = [&](size_t bytes) {
    const std::string metadata = R"("__metadata__":{"k":")" + std::string(bytes - 1, 'v') + "\"},";
    folder_.Write("m.safetensors", Shard("emb", "norm", metadata));
    return Load("", "m.safetensors");
  };
  const Result kept = load(16384);
  ASSERT_THAT(kept, Succeeds());
  EXPECT_EQ((*kept)->metadata().at("k").size(), 16383u);
  EXPECT_EQ((*kept)->metadata_bytes_left_out(), 0);
  const Result left_out = load(16385);
  ASSERT_THAT(left_out, Succeeds());
  EXPECT_TRUE((*left_out)->metadata().empty());
  EXPECT_EQ((*left_out)->metadata_bytes_left_out(), 16385);
}

}  // namespace
}  // namespace embedding
