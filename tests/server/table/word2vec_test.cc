#include "server/table/word2vec.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <vector>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Result = absl::StatusOr<KeyedRows>;

Result Read(const std::string& bytes, KeyPolicy policy = {}, const TableLimits& limits = {}) {
  const TempFolder folder;
  const absl::StatusOr<SourceFile> file = SourceFile::Open(folder.Write("f.bin", bytes));
  if (!file.ok()) return file.status();
  return ReadWord2vec(*file, limits, policy, {});
}

std::vector<std::string> Keys(const KeyedRows& rows) {
  std::vector<std::string> keys;
  for (size_t i = 0; i + 1 < rows.key_ends.size(); ++i) {
    keys.push_back(rows.keys.substr(rows.key_ends[i], rows.key_ends[i + 1] - rows.key_ends[i]));
  }
  return keys;
}

std::string RowBytes(const KeyedRows& rows) {
  return std::string(reinterpret_cast<const char*>(rows.rows.get()),
                     static_cast<size_t>(rows.num_rows * rows.dim) * sizeof(float));
}

const std::string kFirst = Bytes<float>({1, 2, 3});
const std::string kSecond = Bytes<float>({4, 5, 6});
const std::string kGood = "2 3\nthe " + kFirst + "of " + kSecond;

TEST(Word2vecTest, RowsAndKeysAreReadWithAndWithoutLineEnds) {
  for (const std::string& bytes : {kGood, "2 3\nthe " + kFirst + "\nof " + kSecond + "\n",
                                   "2 3\nthe " + kFirst + "\nof " + kSecond, kGood + "\n"}) {
    const Result rows = Read(bytes);
    ASSERT_THAT(rows, Succeeds());
    EXPECT_EQ(rows->num_rows, 2);
    EXPECT_EQ(rows->dim, 3);
    EXPECT_THAT(Keys(*rows), ElementsAre("the", "of"));
    EXPECT_EQ(RowBytes(*rows), kFirst + kSecond);
  }
}

// A reader that skips white space by class loses its place here.
TEST(Word2vecTest, BytesOfFloatsThatLookLikeWhiteSpaceAreRows) {
  const std::string blanks = "    \n\n\n\n\n  \n";
  const std::string breaks = "\n\n\n\n        ";
  const Result rows = Read("2 3\na " + blanks + "\nb " + breaks + "\n");
  ASSERT_THAT(rows, Succeeds());
  EXPECT_THAT(Keys(*rows), ElementsAre("a", "b"));
  EXPECT_EQ(RowBytes(*rows), blanks + breaks);
}

TEST(Word2vecTest, OnlyOneLineEndIsSkippedBeforeAKey) {
  const Result rows = Read("2 3\nthe " + kFirst + "\n\nof " + kSecond);
  ASSERT_THAT(rows, Succeeds());
  EXPECT_THAT(Keys(*rows), ElementsAre("the", "\nof"));
}

TEST(Word2vecTest, FilesOfManyWindowsAreReadWhole) {
  // 12 MB: rows and keys lie across the borders of what is read at a time.
  constexpr int64_t kRows = 3001, kDim = 1001;
  std::string bytes = std::to_string(kRows) + " " + std::to_string(kDim) + "\n", wanted;
  std::vector<float> row(kDim);
  for (int64_t i = 0; i < kRows; ++i) {
    std::iota(row.begin(), row.end(), static_cast<float>(i * kDim));
    const std::string raw(reinterpret_cast<const char*>(row.data()), kDim * sizeof(float));
    bytes += "key" + std::to_string(i) + " " + raw + (i % 2 == 0 ? "\n" : "");
    wanted += raw;
  }
  const Result rows = Read(bytes);
  ASSERT_THAT(rows, Succeeds());
  EXPECT_EQ(Keys(*rows).back(), "key3000");
  EXPECT_EQ(RowBytes(*rows), wanted);
}

TEST(Word2vecTest, AFileCutAtAnyLengthIsRefused) {
  for (size_t size = 0; size < kGood.size(); ++size) {
    EXPECT_THAT(Read(kGood.substr(0, size)),
                Fails(kDataLoss, ::testing::AnyOf(HasSubstr("file ends at byte " + std::to_string(size)),
                                                  HasSubstr("first line is"))))
        << size;
  }
}

struct RefusedCase {
  const char* name;
  std::string bytes;
  const char* message;
};

class RefusedWord2vecTest : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedWord2vecTest, NamesThePlaceAndTheReason) {
  EXPECT_THAT(Read(GetParam().bytes), Fails(kDataLoss, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedWord2vecTest,
    ::testing::Values(
        RefusedCase{"Empty", "", "first line is \"\""},
        RefusedCase{"NoNumbers", "the 3\n" + kFirst,
                    "first line is \"the 3\", a word2vec file begins with two numbers"},
        RefusedCase{"ThreeNumbers", "2 3 4\n" + kFirst, "first line is \"2 3 4\""},
        RefusedCase{"OneNumber", "2\n" + kFirst, "first line is \"2\""},
        RefusedCase{"Negative", "-2 3\n" + kFirst, "first line is \"-2 3\""},
        RefusedCase{"Plus", "+2 3\n" + kFirst, "first line is \"+2 3\""},
        RefusedCase{"Fraction", "2 3.0\n" + kFirst, "first line is \"2 3.0\""},
        RefusedCase{"TwoSpaces", "2  3\n" + kFirst, "first line is \"2  3\""},
        RefusedCase{"CarriageReturn", "2 3\r\n" + kFirst, "first line is \"2 3\\r\""},
        RefusedCase{"Past64Bits", "99999999999999999999 3\n" + kFirst, "first line is"},
        RefusedCase{"NoLineEnd", std::string(200, '1'), "first line is"},
        RefusedCase{"NoRows", "0 3\n", "table has 0 rows of width 3, allowed are 1.."},
        RefusedCase{"NoWidth", "3 0\n", "table has 3 rows of width 0"},
        RefusedCase{"TooWide", "3 65537\n", "of width 1..65536 (--max-dim)"},
        RefusedCase{"MoreThanTheFileHolds", "2147483647 65536\na ",
                    "file ends at byte 19, its first line says 2147483647 rows of width 65536, which need "
                    "562954248126479 at least"},
        RefusedCase{"OneRowTooMany", "3 3\nthe " + kFirst + "of " + kSecond,
                    "file ends at byte 35, its first line says 3 rows of width 3, which need 46 at least"},
        RefusedCase{"ShortLastRow", "2 3\nlonger " + kFirst + "of " + kSecond.substr(0, 8),
                    "file ends at byte 34, row 1 of 2 needs 38"},
        RefusedCase{"BytesLeft", kGood + "\nx", "file has 1 bytes after the last of the 2 rows of width 3"},
        RefusedCase{"TwoLineEndsLeft", kGood + "\n\n", "file has 1 bytes after the last"},
        RefusedCase{"OneRowTooFew", "1 3\nthe " + kFirst + "of " + kSecond, "file has 15 bytes after the last"},
        RefusedCase{"EmptyKey", "2 3\nthe " + kFirst + " " + kSecond + "   ", "row 1 at byte 20 has an empty key"},
        RefusedCase{"Nul", "1 3\n" + std::string("a\0b ", 4) + kFirst, "row 0 at byte 4 key \"a\\x00b\" holds a NUL"},
        RefusedCase{"NotUtf8", "2 3\nthe " + kFirst + "\n\xff\xfe " + kSecond,
                    "row 1 at byte 21 key \"\\xff\\xfe\" is not valid UTF-8 (invalid-keys=skip"},
        RefusedCase{"KeyTooLong", "1 3\n" + std::string(65537, 'a') + " " + kFirst,
                    "row 0 at byte 4 has no space after a key of at most 65536 bytes: \"aaa"},
        RefusedCase{"KeyWithoutEnd", "1 3\n" + std::string(100, 'a'),
                    "file ends at byte 104, in the key of row 0 of 1"}),
    [](const auto& i) { return i.param.name; });

TEST(Word2vecTest, KeysHaveUpTo65536Bytes) {
  const std::string key(65536, 'a');
  const Result rows = Read("1 3\n" + key + " " + kFirst);
  ASSERT_THAT(rows, Succeeds());
  EXPECT_EQ(rows->keys, key);
}

TEST(Word2vecTest, InvalidKeysAreSkippedWhereThePolicySaysSo) {
  const Result rows =
      Read("4 3\nthe " + kFirst + "\n\xff " + kSecond + "\n " + kFirst + "\n" + std::string("a\0 ", 3) + kSecond,
           {.skip_invalid = true});
  ASSERT_THAT(rows, Succeeds());
  EXPECT_THAT(Keys(*rows), ElementsAre("the", "", "", ""));
}

TEST(Word2vecTest, RowsAndWidthAreHeldAgainstTheLimits) {
  EXPECT_THAT(Read(kGood, {}, {.max_rows = 2, .max_dim = 3}), Succeeds());
  EXPECT_THAT(Read(kGood, {}, {.max_rows = 1, .max_dim = 3}), Fails(kDataLoss, HasSubstr("1..1 rows (--max-rows)")));
  EXPECT_THAT(Read(kGood, {}, {.max_rows = 2, .max_dim = 2}), Fails(kDataLoss, HasSubstr("1..2 (--max-dim)")));
}

TEST(Word2vecTest, AReadErrorInTheMiddleNamesItsOffset) {
  const TempFolder folder;
  std::string bytes = "3 1000000\n";
  for (int i = 0; i < 3; ++i) bytes += "k " + std::string(4000000, '\0');
  const absl::StatusOr<SourceFile> file =
      SourceFile::Open(folder.Write("f", bytes), [](int descriptor, void* to, size_t count, off_t offset) -> ssize_t {
        constexpr off_t kBad = 5000000;
        if (offset >= kBad) {
          errno = EIO;
          return -1;
        }
        return pread(descriptor, to, std::min(count, static_cast<size_t>(kBad - offset)), offset);
      });
  ASSERT_THAT(file, Succeeds());
  EXPECT_THAT(ReadWord2vec(*file, {.max_rows = 3, .max_dim = 1000000}, {}, {}),
              Fails(kDataLoss, "read error at byte 5000000: Input/output error"));
}

TEST(Word2vecTest, KeysThatTwoRowsBearNameBothUnlessTheFirstKeepsIt) {
  const std::string bytes = "3 3\nthe " + kFirst + "of " + kSecond + "the " + kSecond;
  Result rows = Read(bytes);
  ASSERT_THAT(rows, Succeeds());
  EXPECT_THAT(TakeKeys(&*rows, "row", 0, {}),
              Fails(kDataLoss, HasSubstr("row 2 repeats the key of row 0: \"the\" (duplicate-keys=first")));
  rows = Read(bytes);
  ASSERT_THAT(rows, Succeeds());
  const auto keys = TakeKeys(&*rows, "row", 0, {.first_keeps = true});
  ASSERT_THAT(keys, Succeeds());
  EXPECT_EQ((*keys)->Find("the"), 0);
  EXPECT_EQ((*keys)->KeyOf(2), "");
  EXPECT_EQ((*keys)->duplicate_keys(), 1);
  EXPECT_EQ((*keys)->rows_without_key(), 1);
}

}  // namespace
}  // namespace embedding
