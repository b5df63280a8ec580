#include "server/table/json_vocabulary.h"

#include <gtest/gtest.h>

#include "tests/server/table/files.h"

namespace embedding {
namespace {

using ::testing::HasSubstr;

using Result = absl::StatusOr<std::unique_ptr<const Vocabulary>>;

TEST(JsonVocabularyTest, TokensBelongToTheRowsOfTheirIds) {
  const Result vocabulary = ParseJsonVocabulary(R"({"of": 1, "the": 0, "K\u00f6nig": 2, "\ud83e\udd16": 3})", 4, {});
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->KeyOf(0), "the");
  EXPECT_EQ((*vocabulary)->Find("of"), 1);
  EXPECT_EQ((*vocabulary)->Find("König"), 2);
  EXPECT_EQ((*vocabulary)->Find("🤖"), 3);
  EXPECT_EQ((*vocabulary)->rows_without_key(), 0);
}

// Models pad their tables to a round number of rows.
TEST(JsonVocabularyTest, RowsWithoutATokenHaveNoKey) {
  const Result vocabulary = ParseJsonVocabulary(R"({"a": 0, "b": 3})", 8, {});
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->num_rows(), 8);
  EXPECT_EQ((*vocabulary)->KeyOf(1), "");
  EXPECT_EQ((*vocabulary)->Find("b"), 3);
  EXPECT_EQ((*vocabulary)->rows_without_key(), 6);
}

TEST(JsonVocabularyTest, TokenizersHaveAModelAndAddedTokens) {
  const Result vocabulary = ParseJsonVocabulary(
      R"({"version": "1.0", "added_tokens": [{"id": 2, "content": "<s>", "special": true}, {"id": 0, "content": "a"}],
          "model": {"type": "BPE", "vocab": {"a": 0, "Ġb": 1}, "merges": [["a", "b"]]}})",
      3, {});
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->KeyOf(0), "a");
  EXPECT_EQ((*vocabulary)->KeyOf(1), "Ġb");
  EXPECT_EQ((*vocabulary)->KeyOf(2), "<s>");
}

TEST(JsonVocabularyTest, UnigramModelsListTheirTokensInOrder) {
  const Result vocabulary = ParseJsonVocabulary(
      R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁a", -1.5], ["b", -2]]}})", 4, {});
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->KeyOf(0), "<unk>");
  EXPECT_EQ((*vocabulary)->KeyOf(1), "▁a");
  EXPECT_EQ((*vocabulary)->Find("b"), 2);
  EXPECT_EQ((*vocabulary)->rows_without_key(), 1);
}

TEST(JsonVocabularyTest, AModelMayBeAToken) {
  const Result vocabulary = ParseJsonVocabulary(R"({"model": 0, "vocab": 1, "added_tokens": 2})", 3, {});
  ASSERT_THAT(vocabulary, Succeeds());
  EXPECT_EQ((*vocabulary)->Find("model"), 0);
}

struct RefusedCase {
  const char* name;
  std::string json;
  const char* message;
};

class RefusedJsonVocabularyTest : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedJsonVocabularyTest, NamesTokensAndIds) {
  EXPECT_THAT(ParseJsonVocabulary(GetParam().json, 4, {}), Fails(kDataLoss, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedJsonVocabularyTest,
    ::testing::Values(
        RefusedCase{"Empty", "", "is no JSON that is read here"}, RefusedCase{"Lines", "the\nof\n", "is no JSON"},
        RefusedCase{"Cut", R"({"a": 0, "b")", "is no JSON"},
        RefusedCase{"TwoRoots", R"({"a": 0}{"b": 1})", "is no JSON"},
        RefusedCase{"TrailingComma", R"({"a": 0,})", "is no JSON"},
        RefusedCase{"ByteOrderMark", "\xEF\xBB\xBF{\"a\": 0}", "is no JSON"},
        RefusedCase{"NotUtf8", "{\"\xff\": 0}", "is no JSON that is read here: The input is not valid UTF-8"},
        RefusedCase{"LoneSurrogate", R"({"\ud83e": 0})", "is no JSON"},
        RefusedCase{"TooDeep", std::string(100, '[') + std::string(100, ']'), "is no JSON"},
        RefusedCase{"List", R"(["a", "b"])",
                    "is [\\\"a\\\",\\\"b\\\"], wanted an object of tokens and ids (vocab.json)"},
        RefusedCase{"NoTokens", "{}", "holds no tokens"},
        RefusedCase{"IdPastTheTable", R"({"a": 4})", "token \"a\" has the id 4, the table has 4 rows"},
        RefusedCase{"NegativeId", R"({"a": -1})", "token \"a\" has the id -1, wanted an integer from 0"},
        RefusedCase{"Fraction", R"({"a": 1.0})", "token \"a\" has the id 1.0, wanted an integer from 0"},
        RefusedCase{"Text", R"({"a": "0"})", "wanted an integer from 0"},
        RefusedCase{"Past64Bits", R"({"a": 99999999999999999999})", "is no JSON"},
        RefusedCase{"TwoTokensOfOneId", R"({"a": 1, "b": 1})", "the id 1 has two tokens, \"a\" and \"b\""},
        RefusedCase{"TwoIdsOfOneToken", R"({"a": 3, "a": 1})",
                    "token \"a\" has two ids, 1 and 3 (duplicate-keys=first"},
        RefusedCase{"Twice", R"({"a": 1, "a": 1})", "the id 1 has two tokens, \"a\" and \"a\""},
        RefusedCase{"EmptyToken", R"({"": 1})", "id 1 has an empty key (invalid-keys=skip"},
        RefusedCase{"Nul", R"({"a\u0000b": 1})", "id 1 key \"a\\x00b\" holds a NUL (invalid-keys=skip"},
        RefusedCase{"TooLong", "{\"" + std::string(65537, 'a') + "\": 1}", "id 1 has a key of 65537 bytes"},
        RefusedCase{"NoVocab", R"({"model": {"type": "BPE"}})", "is no tokenizer.json"},
        RefusedCase{"TwoModels", R"({"model": {"vocab": {"a": 0}}, "model": {"vocab": {"b": 0}}})",
                    "each at most once"},
        RefusedCase{"VocabIsText", R"({"model": {"vocab": "a"}})",
                    "model.vocab is \\\"a\\\", wanted an object or an array"},
        RefusedCase{"UnigramWithoutScore", R"({"model": {"vocab": [["a", 0.0], ["b"]]}})",
                    "model.vocab[1] is [\\\"b\\\"], wanted a token and its score"},
        RefusedCase{"UnigramTooLong", R"({"model": {"vocab": [["a",0],["b",0],["c",0],["d",0],["e",0]]}})",
                    "token \"e\" has the id 4, the table has 4 rows"},
        RefusedCase{"AddedIsNoArray", R"({"model": {"vocab": {"a": 0}}, "added_tokens": {}})",
                    "added_tokens is {}, wanted an array"},
        RefusedCase{"AddedWithoutId", R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"content": "b"}]})",
                    "added_tokens[0] is {\\\"content\\\":\\\"b\\\"}, wanted an object with one id and one content"},
        RefusedCase{"AddedInTheWay", R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 0, "content": "b"}]})",
                    "the id 0 has two tokens, \"a\" and \"b\""},
        RefusedCase{"AddedElsewhere", R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1, "content": "a"}]})",
                    "token \"a\" has two ids, 0 and 1"}),
    [](const auto& i) { return i.param.name; });

TEST(JsonVocabularyTest, PoliciesLetSingleKeysPass) {
  const Result first = ParseJsonVocabulary(R"({"a": 3, "b": 2, "a": 1})", 4, {.first_keeps = true});
  ASSERT_THAT(first, Succeeds());
  EXPECT_EQ((*first)->Find("a"), 1);
  EXPECT_EQ((*first)->KeyOf(3), "");
  EXPECT_EQ((*first)->duplicate_keys(), 1);
  const Result skip = ParseJsonVocabulary(R"({"": 0, "a\u0000": 1, "b": 2})", 4, {.skip_invalid = true});
  ASSERT_THAT(skip, Succeeds());
  EXPECT_EQ((*skip)->rows_without_key(), 3);
}

TEST(JsonVocabularyTest, TheNameSaysThatAFileIsJson) {
  const TempFolder folder;
  EXPECT_THAT(LoadVocabulary(folder.Write("v.json", R"({"a": 0})"), 1, {}), Succeeds());
  EXPECT_THAT(LoadVocabulary(folder.Write("v.json", "a\n"), 1, {}),
              Fails(kDataLoss, HasSubstr(folder.Path("v.json") + ": is no JSON")));
  EXPECT_THAT(
      LoadVocabulary(folder.Write("v.txt", "{\"a\": 0,\n\"b\": 1}"), 3, {}),
      Fails(kDataLoss, HasSubstr("file has 2 keys (one a line), the table has 3 rows; the file looks like JSON")));
}

}  // namespace
}  // namespace embedding
