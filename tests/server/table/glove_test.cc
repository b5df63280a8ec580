#include "server/table/glove.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <filesystem>
#include <vector>

#include "server/table/text_row.h"
#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Result = absl::StatusOr<KeyedRows>;

class TextRowsTest : public ::testing::Test {
 protected:
  Result Read(const std::string& bytes, const TextRowsOptions& options = {}) {
    const absl::StatusOr<SourceFile> file = SourceFile::Open(folder_.Write("f.txt", bytes));
    if (!file.ok()) return file.status();
    return ReadTextRows(*file, options, pool_, {});
  }

  TempFolder folder_;
  WorkerPool pool_{3};
};

std::vector<std::string> Keys(const KeyedRows& rows) {
  std::vector<std::string> keys;
  for (size_t i = 0; i + 1 < rows.key_ends.size(); ++i) {
    keys.push_back(rows.keys.substr(rows.key_ends[i], rows.key_ends[i + 1] - rows.key_ends[i]));
  }
  return keys;
}

std::vector<float> Values(const KeyedRows& rows) {
  const float* values = reinterpret_cast<const float*>(rows.rows.get());
  return std::vector<float>(values, values + rows.num_rows * rows.dim);
}

const std::string kRows = "the 0.5 -1 2\nof 3 4e0 -0.25\n. . 1 2 3\n";
const std::string kWithHeader = "3 3\n" + kRows;

TEST_F(TextRowsTest, GloveHasNoHeaderAndWord2vecHasOne) {
  for (const bool has_header : {false, true}) {
    const Result rows = Read(has_header ? kWithHeader : kRows, {.has_header = has_header});
    ASSERT_THAT(rows, Succeeds());
    EXPECT_EQ(rows->num_rows, 3);
    EXPECT_EQ(rows->dim, 3);
    EXPECT_THAT(Keys(*rows), ElementsAre("the", "of", ". ."));
    EXPECT_THAT(Values(*rows), ElementsAre(0.5f, -1, 2, 3, 4, -0.25f, 1, 2, 3));
  }
}

// Every place where a chunk can end: in a key, in a number, before and behind a line end.
TEST_F(TextRowsTest, TheAnswerIsTheSameForEveryChunk) {
  for (const std::string& bytes : {kWithHeader, kWithHeader.substr(0, kWithHeader.size() - 1),
                                   std::string("3 3 \r\nthe 0.5 -1 2\r\nof 3 4e0 -0.25 \r\n. . 1 2 3\r\n")}) {
    for (uint64_t chunk = 1; chunk < bytes.size() + 2; ++chunk) {
      const Result rows = Read(bytes, {.has_header = true, .chunk_bytes = chunk});
      ASSERT_THAT(rows, Succeeds()) << chunk;
      EXPECT_THAT(Keys(*rows), ElementsAre("the", "of", ". .")) << chunk;
      EXPECT_THAT(Values(*rows), ElementsAre(0.5f, -1, 2, 3, 4, -0.25f, 1, 2, 3)) << chunk;
    }
  }
}

TEST_F(TextRowsTest, TheFirstWrongLineIsNamedForEveryChunk) {
  const std::string bytes = "the 1 2\nof 1 2\nand 1 2\nto 1 2\nin 1 2\na 1 2\nis 1 abc\nthat 1\nwas 1 2\n";
  for (uint64_t chunk = 1; chunk < bytes.size() + 2; ++chunk) {
    EXPECT_THAT(Read(bytes, {.chunk_bytes = chunk}),
                Fails(kDataLoss, "line 7, field 3 \"abc\" is not a number (the key is field 1)"))
        << chunk;
  }
}

// Two numbers may be the header of a word2vec file; without one they are a row as any other.
TEST_F(TextRowsTest, AFirstRowThatLooksLikeAHeaderIsARow) {
  EXPECT_THAT(Values(*Read("0 1\nx 5\n")), ElementsAre(1, 5));
  EXPECT_THAT(Values(*Read("9000000000 1\nx 5\n")), ElementsAre(1, 5));
}

TEST_F(TextRowsTest, TheLocaleNeverMatters) {
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) std::setlocale(LC_ALL, "C.UTF-8");
  EXPECT_THAT(Values(*Read("a 0.5 1.5\n")), ElementsAre(0.5f, 1.5f));
  EXPECT_THAT(Read("a 0.5 1.5\nb 0,5 1,5\n"), Fails(kDataLoss, HasSubstr("line 2, field 2 \"0,5\" is not a number")));
  std::setlocale(LC_ALL, "C");
}

struct RefusedCase {
  const char* name;
  bool has_header;
  std::string bytes;
  const char* message;
};

class RefusedTextRowsTest : public TextRowsTest, public ::testing::WithParamInterface<RefusedCase> {};

TEST_P(RefusedTextRowsTest, NamesTheLineAndTheReason) {
  EXPECT_THAT(Read(GetParam().bytes, {.has_header = GetParam().has_header}),
              Fails(kDataLoss, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedTextRowsTest,
    ::testing::Values(
        RefusedCase{"Empty", false, "", "file ends at byte 0: it is empty"},
        RefusedCase{"ByteOrderMark", false, "\xEF\xBB\xBFthe 1 2\n", "line 1 begins with a byte order mark"},
        RefusedCase{"ByteOrderMarkAndHeader", true, "\xEF\xBB\xBF\x31 2\nthe 1 2\n",
                    "line 1 begins with a byte order mark"},
        RefusedCase{"WordsAlone", false, "the\nof\n", "line 1 is \"the\", a line of GloVe text is a key and numbers"},
        RefusedCase{"CommaSeparated", false, "the,0.1,0.2\n", "line 1 is \"the,0.1,0.2\""},
        RefusedCase{"Short", false, "the 1 2\nof 1\n",
                    "line 2 has 2 fields, wanted a key and 2 numbers, as line 1 has"},
        RefusedCase{"Long", false, "the 1 2\nof 1 2 3\n", "line 2 has 3 numbers, wanted a key and 2 numbers"},
        RefusedCase{"EmptyLine", false, "the 1 2\n\nof 1 2\n", "line 2 is empty, wanted a key and 2 numbers"},
        RefusedCase{"EmptyLastLine", false, "the 1 2\nof 1 2\n\n", "line 3 is empty"},
        RefusedCase{"EmptyKey", false, "the 1 2\n 1 2\n", "line 2 has an empty key"},
        RefusedCase{"NotUtf8", false, "the 1 2\n\xff 1 2\n", "line 2 key \"\\xff\" is not valid UTF-8"},
        RefusedCase{"Nul", false, std::string("the 1 2\na\0 1 2\n", 15), "line 2 key \"a\\x00\" holds a NUL"},
        RefusedCase{"KeyTooLong", false, "the 1 2\n" + std::string(65537, 'a') + " 1 2\n",
                    "line 2 has a key of 65537 bytes, a key has at most 65536"},
        RefusedCase{"NotFinite", false, "the 1 2\nof 1 nan\n", "line 2, field 3 \"nan\" is NaN"},
        RefusedCase{"NumbersWithoutKeys", false, "0.5 1 2\n0.25 1 2\n",
                    "every line begins with a decimal fraction where its key should be"},
        RefusedCase{"HeaderOverRowsOfOne", false, "2 1\nthe 0.5\nof 0.25\n",
                    "line 1 is the header of the 2 lines below it"},
        RefusedCase{"HeaderOverRowsOfTwo", false, "2 2\nthe 0.5 1\nof 0.25 1\n",
                    "line 1 is the header of the 2 lines below it"},
        RefusedCase{"NoHeader", true, "the 1 2\nof 1 2\n",
                    "first line is \"the 1 2\", a word2vec text file begins with two integers"},
        RefusedCase{"HeaderAlone", true, "2 3\n", "first line says 2 rows, 0 lines follow it"},
        RefusedCase{"HeaderWithoutEnd", true, "2 3", "first line says 2 rows, 0 lines follow it"},
        RefusedCase{"OneLineTooFew", true, "3 2\nthe 1 2\nof 1 2\n", "first line says 3 rows, 2 lines follow it"},
        RefusedCase{"OneLineTooMany", true, "1 2\nthe 1 2\nof 1 2\n", "first line says 1 rows, 2 lines follow it"},
        RefusedCase{"OtherWidth", true, "2 3\nthe 1 2\nof 1 2\n", "line 2 has 3 fields, wanted a key and 3 numbers"},
        RefusedCase{"EmptyLineInATinyFile", false, "a 1 2\n\nb 3 4\n", "line 2 is empty, wanted a key and 2 numbers"},
        RefusedCase{"NoRows", true, "0 3\n", "table has 0 rows of width 3"},
        RefusedCase{"NoWidth", true, "1 0\nthe\n", "table has 1 rows of width 0"},
        // Memory for V * d is not taken on the word of two short lines.
        RefusedCase{"MoreThanTheFileHolds", true, "3 65536\na 1\nb 1\nc 1\n",
                    "file has 3 lines, which need 131072 bytes at least for a key and 65536 numbers each, but it has "
                    "12 bytes"}),
    [](const auto& i) { return i.param.name; });

TEST_F(TextRowsTest, LinesHaveUpTo16MiB) {
  const auto line = [](uint64_t size) { return "k" + std::string(size - 3, ' ') + " 1"; };
  EXPECT_THAT(Read(line(kMaxTextLineBytes) + "\nj 2\n"), Succeeds());
  EXPECT_THAT(Read("j 2\n" + line(kMaxTextLineBytes)), Succeeds());
  const std::string too_long = "is longer than 16777216 bytes";
  EXPECT_THAT(Read(line(kMaxTextLineBytes + 1) + "\nj 2\n"), Fails(kDataLoss, "line 1 " + too_long));
  EXPECT_THAT(Read("j 2\n" + line(kMaxTextLineBytes + 1) + "\n"), Fails(kDataLoss, "line 2 " + too_long));
  EXPECT_THAT(Read("j 2\n" + line(3 * kMaxTextLineBytes)), Fails(kDataLoss, "line 2 " + too_long));
}

// Of a file with holes, which would take its time to read.
TEST_F(TextRowsTest, WhatIsOverALimitIsRefusedBeforeTheFileIsRead) {
  constexpr int64_t kSize = int64_t{1} << 40;
  const auto read = [&](const std::string& begin, const TextRowsOptions& options) -> Result {
    const std::string path = folder_.Write("f.txt", begin);
    std::filesystem::resize_file(path, kSize);
    const absl::StatusOr<SourceFile> file = SourceFile::Open(path);
    if (!file.ok()) return file.status();
    return ReadTextRows(*file, options, pool_, {});
  };
  EXPECT_THAT(read("the 1 2", {}), Fails(kDataLoss, "line 1 is longer than 16777216 bytes"));
  EXPECT_THAT(read("the 1 2\n", {.limits = {.max_rows = 9, .max_dim = 1}}),
              Fails(kDataLoss, HasSubstr("1..1 (--max-dim)")));
  EXPECT_THAT(read("10 2\n", {.has_header = true, .limits = {.max_rows = 9, .max_dim = 2}}),
              Fails(kDataLoss, HasSubstr("table has 10 rows of width 2, allowed are 1..9 rows")));
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "the 1 2\n";
  EXPECT_THAT(read(lines, {.limits = {.max_rows = 9, .max_dim = 2}}),
              Fails(kDataLoss, HasSubstr("table has more than 9 rows of width 2")));
}

TEST_F(TextRowsTest, InvalidKeysAreSkippedWhereThePolicySaysSo) {
  const Result rows = Read("the 1 2\n\xff 3 4\n 5 6\n", {.keys = {.skip_invalid = true}});
  ASSERT_THAT(rows, Succeeds());
  EXPECT_THAT(Keys(*rows), ElementsAre("the", "", ""));
  EXPECT_THAT(Values(*rows), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TextRowsTest, IntegersMayBeKeys) {
  const Result rows = Read("0 0.5 1\n1 1.5 2\n");
  ASSERT_THAT(rows, Succeeds());
  EXPECT_THAT(Keys(*rows), ElementsAre("0", "1"));
}

TEST_F(TextRowsTest, RowsAndWidthAreHeldAgainstTheLimits) {
  EXPECT_THAT(Read(kRows, {.limits = {.max_rows = 3, .max_dim = 3}}), Succeeds());
  EXPECT_THAT(Read(kRows, {.limits = {.max_rows = 2, .max_dim = 3}}),
              Fails(kDataLoss, "table has more than 2 rows of width 3, allowed are 1..2 rows (--max-rows)"));
  // On the word of a header, whatever follows it.
  EXPECT_THAT(Read("3 3\nnonsense", {.has_header = true, .limits = {.max_rows = 2, .max_dim = 3}}),
              Fails(kDataLoss, HasSubstr("table has 3 rows of width 3, allowed are 1..2 rows (--max-rows)")));
  EXPECT_THAT(Read("3 3\nnonsense", {.has_header = true, .limits = {.max_rows = 3, .max_dim = 2}}),
              Fails(kDataLoss, HasSubstr("1..2 (--max-dim)")));
  EXPECT_THAT(Read(kRows, {.limits = {.max_rows = 3, .max_dim = 2}}), Fails(kDataLoss, HasSubstr("1..2 (--max-dim)")));
}

TEST_F(TextRowsTest, AReadErrorInTheMiddleNamesItsOffset) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += "key" + std::to_string(i) + " 1 2\n";
  // In the first pass, and in the second: the 40th read of this size is one of the latter.
  for (const int good_reads : {0, 40}) {
    std::atomic<int> reads{0};
    const absl::StatusOr<SourceFile> file = SourceFile::Open(
        folder_.Write("f", bytes), [&](int descriptor, void* to, size_t count, off_t offset) -> ssize_t {
          if (offset >= 500 && ++reads > good_reads) {
            errno = EIO;
            return -1;
          }
          return pread(descriptor, to, offset < 500 ? std::min(count, static_cast<size_t>(500 - offset)) : count,
                       offset);
        });
    ASSERT_THAT(file, Succeeds());
    EXPECT_THAT(ReadTextRows(*file, {.chunk_bytes = 32}, pool_, {}),
                Fails(kDataLoss, ::testing::ContainsRegex("^read error at byte [0-9]+: Input/output error$")));
  }
}

// Fewer lines in the second pass than in the first must not leave rows unwritten.
TEST_F(TextRowsTest, AFileWhoseLinesVanishBetweenThePassesIsRefused) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += "k" + std::to_string(1000 + i) + " 1 2\n";
  std::atomic<int> reads{0};
  const absl::StatusOr<SourceFile> file =
      SourceFile::Open(folder_.Write("f", bytes), [&](int descriptor, void* to, size_t count, off_t offset) -> ssize_t {
        const ssize_t got = pread(descriptor, to, count, offset);
        // The first line once, then each of the 10 chunks once.
        if (++reads > 11) std::replace(static_cast<char*>(to), static_cast<char*>(to) + got, '\n', ' ');
        return got;
      });
  ASSERT_THAT(file, Succeeds());
  EXPECT_THAT(ReadTextRows(*file, {.chunk_bytes = 100}, pool_, {}), Fails(kDataLoss, ::testing::_));
}

}  // namespace
}  // namespace embedding
