#include "server/table/vocabulary.h"

#include <gtest/gtest.h>

#include "server/table/text_vocabulary.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Result = absl::StatusOr<std::unique_ptr<const Vocabulary>>;

Result Parse(const std::string& text, int64_t rows, KeyPolicy policy = {}) {
  return ParseTextVocabulary(text, rows, policy);
}

TEST(VocabularyTest, LineIIsTheKeyOfRowI) {
  for (const char* text : {"the\nof\nKönig", "the\nof\nKönig\n", "the\r\nof\r\nKönig\r\n"}) {
    const Result vocabulary = Parse(text, 3);
    ASSERT_THAT(vocabulary, Succeeds());
    EXPECT_EQ((*vocabulary)->num_rows(), 3);
    EXPECT_EQ((*vocabulary)->KeyOf(0), "the");
    EXPECT_EQ((*vocabulary)->KeyOf(2), "König");
    EXPECT_EQ((*vocabulary)->Find("of"), 1);
    EXPECT_EQ((*vocabulary)->Find("O"), std::nullopt);
    EXPECT_EQ((*vocabulary)->Find(""), std::nullopt);
    EXPECT_EQ((*vocabulary)->rows_without_key(), 0);
  }
}

TEST(VocabularyTest, KeysKeepBlanksAndCarriageReturnsWithin) {
  const Result vocabulary = Parse(" a \nb\rc\nd\r", 3);
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->KeyOf(0), " a ");
  EXPECT_EQ((*vocabulary)->KeyOf(1), "b\rc");
  EXPECT_EQ((*vocabulary)->KeyOf(2), "d\r");  // no line end, so no part of one
}

TEST(VocabularyTest, NoNormalisationMakesKeysEqual) {
  EXPECT_THAT(Parse("\xC3\xA9\ne\xCC\x81\nE\ne\n", 4), Succeeds());
}

struct RefusedCase {
  const char* name;
  std::string text;
  int64_t rows;
  std::string message;
};

class RefusedVocabularyTest : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedVocabularyTest, NamesTheLineAndTheReason) {
  EXPECT_THAT(Parse(GetParam().text, GetParam().rows),
              Fails(kDataLoss, AllOf(HasSubstr(GetParam().message), Not(HasSubstr("\n")))));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedVocabularyTest,
    ::testing::Values(RefusedCase{"TooFew", "a\nb\n", 3, "file has 2 keys (one a line), the table has 3 rows"},
                      RefusedCase{"TooMany", "a\nb\nc\n", 2, "file has 3 keys (one a line), the table has 2 rows"},
                      RefusedCase{"Empty", "", 2, "file has 0 keys"},
                      RefusedCase{"Duplicate", "a\nb\nc\nb\n", 4, "line 4 repeats the key of line 2: \"b\""},
                      RefusedCase{"EmptyKey", "a\n\nc\n", 3, "line 2 is empty"},
                      RefusedCase{"EmptyKeyByCrLf", "a\r\n\r\nc\r\n", 3, "line 2 is empty"},
                      RefusedCase{"Nul", std::string("a\nb\0c\n", 6), 2, "line 2 \"b\\x00c\" holds a NUL"},
                      RefusedCase{"InvalidUtf8", "a\nb\xff\n", 2, "line 2 \"b\\xff\" is not valid UTF-8"},
                      RefusedCase{"Surrogate", "\xED\xA0\x80\n", 1, "line 1"},
                      RefusedCase{"ByteOrderMark",
                                  "\xEF\xBB\xBF"
                                  "a\n",
                                  1, "byte order mark"},
                      RefusedCase{"TooLong", "a\n" + std::string(65537, 'x'), 2,
                                  "line 2 has 65537 bytes, a key has at most 65536"}),
    [](const auto& i) { return i.param.name; });

TEST(VocabularyTest, TheLongestKeyIsHeld) {
  const Result vocabulary = Parse(std::string(65536, 'x') + "\n", 1);
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->Find(std::string(65536, 'x')), 0);
}

TEST(VocabularyTest, InvalidKeysMayBeSkipped) {
  const Result vocabulary = Parse("a\n\xff\nc\n\xff\n", 4, {.skip_invalid = true});
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->rows_without_key(), 2);
  EXPECT_EQ((*vocabulary)->KeyOf(1), "");
  EXPECT_EQ((*vocabulary)->KeyOf(2), "c");
  EXPECT_EQ((*vocabulary)->Find("c"), 2);
  EXPECT_EQ((*vocabulary)->Find("\xff"), std::nullopt);
  EXPECT_THAT((*vocabulary)->WithPrefix("", 10), ElementsAre(0, 2));
  EXPECT_THAT(Parse("a\n\xff\na\n", 3, {.skip_invalid = true}),
              Fails(kDataLoss, HasSubstr("line 3 repeats the key of line 1")));
}

TEST(VocabularyTest, FilesAreReadAndNamed) {
  const TempFolder folder;
  const std::string path = folder.Write("v.txt", "a\nb\n");
  EXPECT_THAT(LoadVocabulary(path, 2, {}), Succeeds());
  EXPECT_THAT(LoadVocabulary(path, 3, {}),
              Fails(kDataLoss, path + ": file has 2 keys (one a line), the table has 3 rows"));
  EXPECT_THAT(LoadVocabulary(folder.Path("w.txt"), 2, {}),
              Fails(kDataLoss, folder.Path("w.txt") + ": cannot be opened: No such file or directory"));
  EXPECT_THAT(LoadVocabulary(folder.Path(""), 2, {}), Fails(kDataLoss, HasSubstr("is a directory")));
}

TEST(VocabularyTest, FilesThatAreSomethingElseAreNamedAsSuch) {
  const TempFolder folder;
  const auto load = [&](const std::string& name, const std::string& bytes) {
    return LoadVocabulary(folder.Write(name, bytes), 1, {});
  };
  EXPECT_THAT(load("v.txt", "version https://git-lfs.github.com/spec/v1\noid x\n"),
              Fails(kDataLoss, HasSubstr("git-lfs pointer")));
  EXPECT_THAT(load("v.txt", "<!doctype html>\n<html>\n"), Fails(kDataLoss, HasSubstr("HTML page")));
  EXPECT_THAT(load("v.txt", "<html>\n"), Succeeds());  // a key like any other
  EXPECT_THAT(load("v.txt.gz", std::string("\x1f\x8b\x08\0\0", 5)), Fails(kDataLoss, HasSubstr("gzip")));
  EXPECT_THAT(load("v.txt", std::string(70000, 'x')), Fails(kDataLoss, HasSubstr("more than 1 keys may have")));
}

}  // namespace
}  // namespace embedding
