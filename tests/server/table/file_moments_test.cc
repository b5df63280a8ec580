// The file changes while it is read, or after: the whole old table, the whole new one or a refusal, never a mixture.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "server/table/load_table.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

const std::string kOld = Bytes<float>({1, 2, 3, 4, 5, 6});
const std::string kNew = Bytes<float>({7, 8, 9, 1, 2, 3});

struct Format {
  const char* name;
  const char* file;
  const char* options;
  std::string old_bytes, new_bytes;
};

std::string Npy(const std::string& rows) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  return std::string("\x93NUMPY\1\0", 8) + Bytes<uint16_t>({static_cast<uint16_t>(header.size())}) + header + rows;
}

std::string Tensor(const std::string& rows) {
  return Safetensors(R"({"emb":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", rows);
}

std::string Word2vec(const std::string& rows) {
  return "2 3\na " + rows.substr(0, 12) + "\nb " + rows.substr(12) + "\n";
}

std::vector<Format> Formats() {
  return {{"Safetensors", "f.safetensors", "", Tensor(kOld), Tensor(kNew)},
          {"Npy", "f.npy", "", Npy(kOld), Npy(kNew)},
          {"Fbin", "f.fbin", "", Bytes<uint32_t>({2, 3}) + kOld, Bytes<uint32_t>({2, 3}) + kNew},
          {"Raw", "f.raw", "format=raw,dtype=F32,dim=3", kOld, kNew},
          {"Word2vec", "f.bin", "", Word2vec(kOld), Word2vec(kNew)},
          {"Word2vecText", "f.vec", "", "2 3\na 1 2 3\nb 4 5 6\n", "2 3\na 7 8 9\nb 1 2 3\n"},
          {"Glove", "f.txt", "", "a 1 2 3\nb 4 5 6\n", "a 7 8 9\nb 1 2 3\n"}};
}

class FileMomentsTest : public ::testing::TestWithParam<Format> {
 protected:
  absl::StatusOr<std::unique_ptr<EmbeddingTable>> Load(const LoadProgress& progress = {}) {
    const std::string options = GetParam().options;
    const absl::StatusOr<TableOptions> parsed =
        ParseTableOptions("t=" + path_ + (options.empty() ? "" : "," + options));
    if (!parsed.ok()) return parsed.status();
    return LoadTable(*parsed, {}, pool_, progress);
  }

  static bool Holds(const EmbeddingTable& table, const std::string& rows) {
    return std::memcmp(table.rows(), rows.data(), rows.size()) == 0;
  }

  TempFolder folder_;
  const std::string path_ = folder_.Write(GetParam().file, GetParam().old_bytes);
  WorkerPool pool_{2};
};

TEST_P(FileMomentsTest, GrowingDuringTheReadIsRefused) {
  EXPECT_THAT(Load([&](int64_t, int64_t) { std::filesystem::resize_file(path_, GetParam().old_bytes.size() + 1); }),
              Fails(kDataLoss, HasSubstr(path_ + ": changed while being read: it had ")));
}

TEST_P(FileMomentsTest, ShrinkingDuringTheReadIsRefused) {
  EXPECT_THAT(Load([&](int64_t, int64_t) { std::filesystem::resize_file(path_, 1); }),
              Fails(kDataLoss, HasSubstr(path_ + ": changed while being read")));
}

TEST_P(FileMomentsTest, RewritingInPlaceDuringTheReadIsRefused) {
  EXPECT_THAT(Load([&](int64_t, int64_t) {
                std::ofstream(path_, std::ios::binary | std::ios::in) << GetParam().new_bytes;
                std::filesystem::last_write_time(
                    path_, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
              }),
              Fails(kDataLoss, HasSubstr(path_ + ": changed while being read")));
}

TEST_P(FileMomentsTest, ARenameDuringTheReadGivesTheWholeOldTable) {
  const std::string next = folder_.Write("next", GetParam().new_bytes);
  bool renamed = false;
  const auto table = Load([&](int64_t, int64_t) {
    if (!renamed) std::filesystem::rename(next, path_);
    renamed = true;
  });
  ASSERT_THAT(table, Succeeds());
  EXPECT_TRUE(renamed);
  EXPECT_TRUE(Holds(**table, kOld));
  const auto again = Load();
  ASSERT_THAT(again, Succeeds());
  EXPECT_TRUE(Holds(**again, kNew));
  EXPECT_NE((*again)->fingerprint(), (*table)->fingerprint());
}

TEST_P(FileMomentsTest, TruncationAfterTheLoadChangesNothing) {
  const auto table = Load();
  ASSERT_THAT(table, Succeeds());
  std::filesystem::resize_file(path_, 0);
  EXPECT_TRUE(Holds(**table, kOld));
  if ((*table)->vocabulary() != nullptr) {
    EXPECT_EQ((*table)->vocabulary()->Find("b"), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FileMomentsTest, ::testing::ValuesIn(Formats()),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace embedding
