#include "server/table/table_root.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

struct NameCase {
  const char* name;
  std::string file;
  std::string why;  // "": fine
};

class FileNameTest : public ::testing::TestWithParam<NameCase> {};

TEST_P(FileNameTest, IsOneWithinTheFolder) {
  const absl::Status status = CheckFileName(GetParam().file);
  if (GetParam().why.empty()) {
    EXPECT_THAT(status, Succeeds());
  } else {
    EXPECT_THAT(status, Fails(kInvalid, HasSubstr(" must be a file name within the table folder: " + GetParam().why)));
    EXPECT_LT(status.message().size(), 400u);
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FileNameTest,
    ::testing::Values(NameCase{"Plain", "words.npy", ""}, NameCase{"InFolders", "a/b/words.npy", ""},
                      NameCase{"DotsInNames", "a..b/..c/d..", ""}, NameCase{"DotParts", "./a/./b", ""},
                      NameCase{"Longest", std::string(4096, 'x'), ""},
                      NameCase{"TooLong", std::string(4097, 'x'), "it has 4097 bytes, at most 4096"},
                      NameCase{"AMiB", std::string(1 << 20, 'x'), "it has 1048576 bytes, at most 4096"},
                      NameCase{"Empty", "", "it is empty"}, NameCase{"Dot", ".", "it names no file"},
                      NameCase{"DotSlash", ".//./", "it names no file"},
                      NameCase{"Absolute", "/etc/passwd", "it is absolute"}, NameCase{"Up", "../x", "it holds \"..\""},
                      NameCase{"UpInside", "a/../b", "it holds \"..\""},
                      NameCase{"UpAtTheEnd", "a/..", "it holds \"..\""},
                      NameCase{"Nul", std::string("a\0b", 3), "it holds a control character"},
                      NameCase{"Newline", "a\nb", "it holds a control character"}),
    [](const auto& test) { return test.param.name; });

class ResolveBeneathTest : public ::testing::Test {
 protected:
  ResolveBeneathTest() {
    std::filesystem::create_directories(folder_.Path("root/inner"));
    folder_.Write("outside.npy", "x");
    folder_.Write("root/inner/t.npy", "x");
  }
  void Link(const std::string& target, const std::string& name) {
    std::filesystem::create_symlink(target, folder_.Path(name));
  }

  TempFolder folder_;
  const std::string root_ = folder_.Path("root");
};

TEST_F(ResolveBeneathTest, FollowsLinksThatStayInside) {
  Link("inner", "root/relative");
  Link(root_ + "/inner", "root/absolute");
  for (const char* name : {"inner/t.npy", "relative/t.npy", "absolute/t.npy"}) {
    const absl::StatusOr<std::string> path = ResolveBeneath(root_, name);
    ASSERT_THAT(path, Succeeds());
    EXPECT_EQ(*path, std::filesystem::canonical(root_).string() + "/inner/t.npy");
  }
}

// Whether or not there is something at their end.
TEST_F(ResolveBeneathTest, LinksThatLeadOutAreAllRefusedAlike) {
  Link("../outside.npy", "root/file.npy");
  Link("../none.npy", "root/dangling.npy");
  Link("none.npy", "root/dangling_inside.npy");
  Link("itself", "root/itself");
  Link("..", "root/up");
  Link("../nowhere", "root/nowhere");
  Link("/", "root/top");
  Link("up", "root/up_again");
  Link("../root-of-another", "root/sibling");
  folder_.Write("root-of-another", "x");
  for (const char* name : {"file.npy", "dangling.npy", "dangling_inside.npy", "itself", "up/outside.npy", "up/none.npy",
                           "up/outside.npy/x", "nowhere/x", "up/root/inner/t.npy", "up/rout/inner/t.npy",
                           "top/etc/passwd", "top/etc/none", "up_again/none", "sibling"}) {
    const std::string refused = "\"" + std::string(name) +
                                "\" must be a file name within the table folder: a link in it leads out of the folder, "
                                "or to nothing";
    EXPECT_THAT(ResolveBeneath(root_, name), Fails(kInvalid, refused));
    EXPECT_THAT(RealPathBeneath(root_ + "/", root_ + "/" + name, name), Fails(kInvalid, refused));
  }
  EXPECT_THAT(CheckBeneath(root_, root_ + "/up/outside.npy", "x"), Fails(kInvalid, HasSubstr("leads out")));
  EXPECT_THAT(CheckBeneath(root_, folder_.Path("outside.npy"), "x"), Fails(kInvalid, HasSubstr("it is elsewhere")));
  EXPECT_THAT(CheckBeneath(root_, root_ + "/inner/t.npy", "x"), Succeeds());
  EXPECT_THAT(CheckBeneath(root_, root_ + "/inner/none.npy", "x"), Succeeds());
}

TEST_F(ResolveBeneathTest, WhatIsNotThereIsNamedWithoutTheRoot) {
  EXPECT_THAT(ResolveBeneath(root_, "inner/none.npy"), Fails(kDataLoss, "inner/none.npy: No such file or directory"));
  EXPECT_THAT(ResolveBeneath(root_ + "x", "t.npy"), Fails(kDataLoss, "the table folder: No such file or directory"));
}

}  // namespace
}  // namespace embedding
