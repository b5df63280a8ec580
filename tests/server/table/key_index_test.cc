#include "server/table/key_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

namespace embedding {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<const KeyIndex> Create(const std::vector<std::string>& keys, KeyIndex::Duplicate* duplicate) {
  std::string blob;
  std::vector<uint64_t> offsets = {0};
  for (const std::string& key : keys) {
    blob += key;
    offsets.push_back(blob.size());
  }
  return KeyIndex::Create(std::move(blob), std::move(offsets), duplicate);
}

std::unique_ptr<const KeyIndex> Create(const std::vector<std::string>& keys) {
  KeyIndex::Duplicate duplicate;
  return Create(keys, &duplicate);
}

TEST(KeyIndexTest, PrefixesComeInByteOrder) {
  const auto index = Create({"robot", "arm", "rob", "\xFF", "robe", "armour", "Rob", "ro\xC3\xB6"});
  ASSERT_NE(index, nullptr);
  EXPECT_THAT(index->WithPrefix("rob", 10), ElementsAre(2, 4, 0));
  EXPECT_THAT(index->WithPrefix("rob", 2), ElementsAre(2, 4));
  EXPECT_THAT(index->WithPrefix("rob", 0), IsEmpty());
  EXPECT_THAT(index->WithPrefix("robots", 10), IsEmpty());
  EXPECT_THAT(index->WithPrefix("z", 10), IsEmpty());
  EXPECT_THAT(index->WithPrefix("\xFF", 10), ElementsAre(3));
  EXPECT_THAT(index->WithPrefix("", 3), ElementsAre(6, 1, 5));
}

TEST(KeyIndexTest, KeysThatShareTheirFirstEightBytesAreOrderedByTheRest) {
  const auto index = Create({"12345678b", "12345678", std::string("12345678\0", 9), "12345678a", "1234567"});
  ASSERT_NE(index, nullptr);
  EXPECT_THAT(index->WithPrefix("", 10), ElementsAre(4, 1, 2, 3, 0));
}

TEST(KeyIndexTest, TheFirstRepeatedKeyIsTold) {
  KeyIndex::Duplicate duplicate;
  EXPECT_EQ(Create({"a", "b", "", "", "c", "b", "a"}, &duplicate), nullptr);
  EXPECT_EQ(duplicate.first_row, 1);
  EXPECT_EQ(duplicate.second_row, 5);
  EXPECT_EQ(duplicate.key, "b");
}

TEST(KeyIndexTest, RowsWithoutKeyAreNotFound) {
  const auto index = Create({"", "a", ""});
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->rows_without_key(), 2);
  EXPECT_EQ(index->KeyOf(0), "");
  EXPECT_EQ(index->Find(""), std::nullopt);
  EXPECT_EQ(index->Find("a"), 1);
}

TEST(KeyIndexTest, AgreesWithASortedSetOnManyRandomKeys) {
  std::mt19937 random(20261129);
  std::set<std::string> known;
  std::vector<std::string> keys;
  while (keys.size() < 20000) {
    std::string key;
    for (size_t length = 1 + random() % 12; length > 0; --length) key += static_cast<char>('a' + random() % 4);
    if (known.insert(key).second) keys.push_back(key);
  }
  const auto index = Create(keys);
  ASSERT_NE(index, nullptr);
  for (size_t row = 0; row < keys.size(); ++row) {
    ASSERT_EQ(index->Find(keys[row]), static_cast<int64_t>(row));
    ASSERT_EQ(index->KeyOf(static_cast<int64_t>(row)), keys[row]);
    ASSERT_EQ(index->Find(keys[row] + "x"), std::nullopt);
  }
  std::vector<std::string> sorted;
  for (const int64_t row : index->WithPrefix("", 1 << 20)) sorted.push_back(keys[static_cast<size_t>(row)]);
  EXPECT_EQ(sorted, std::vector<std::string>(known.begin(), known.end()));
}

TEST(KeyIndexTest, TheFirstRowKeepsAKeyWhereThatIsWanted) {
  // Chains of several, and one at each end.
  const std::string blob = "aabbbabccd";
  std::vector<uint64_t> offsets(11);
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = i;
  KeyIndex::Duplicate duplicate;
  const auto index = KeyIndex::Create(blob, offsets, &duplicate, /*first_keeps=*/true);
  ASSERT_NE(index, nullptr);
  const std::vector<std::string> wanted = {"a", "", "b", "", "", "", "", "c", "", "d"};
  for (size_t row = 0; row < wanted.size(); ++row) {
    EXPECT_EQ(index->KeyOf(static_cast<int64_t>(row)), wanted[row]);
    if (!wanted[row].empty()) {
      EXPECT_EQ(index->Find(wanted[row]), row);
    }
  }
  EXPECT_EQ(index->duplicate_keys(), 6);
  EXPECT_EQ(index->rows_without_key(), 6);
  EXPECT_THAT(index->WithPrefix("", 10), ::testing::ElementsAre(0, 2, 7, 9));
}

}  // namespace
}  // namespace embedding
