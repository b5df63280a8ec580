#include "server/table/fingerprint.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/table/embedding_table.h"

namespace embedding {
namespace {

// Expected digests of whole tables come from tests/golden/tables/expected.tsv (golden_test.cc); here is what must tell
// tables apart.

std::string Of(Dtype dtype, int64_t num_rows, int64_t dim, std::vector<std::string> keys = {},
               unsigned char first = 0) {
  std::vector<unsigned char> bytes(static_cast<size_t>(num_rows * dim) * DtypeSize(dtype));
  bytes[0] = first;
  return TableFromMemory("t", dtype, num_rows, dim, bytes.data(), std::move(keys))->fingerprint();
}

TEST(FingerprintTest, TellsApartShapesDtypesRowsAndKeys) {
  const std::string base = Of(Dtype::kF16, 2, 6);
  EXPECT_EQ(base.size(), 32u);
  EXPECT_EQ(base.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(base, Of(Dtype::kF16, 2, 6));
  EXPECT_NE(base, Of(Dtype::kBF16, 2, 6));
  EXPECT_NE(base, Of(Dtype::kF16, 6, 2));
  EXPECT_NE(base, Of(Dtype::kF32, 2, 3));
  EXPECT_NE(base, Of(Dtype::kF16, 2, 6, {}, 1));
  EXPECT_NE(base, Of(Dtype::kF16, 2, 6, {"a", "b"}));
  EXPECT_NE(Of(Dtype::kF16, 2, 6, {"a", "b"}), Of(Dtype::kF16, 2, 6, {"b", "a"}));
  EXPECT_NE(Of(Dtype::kF16, 2, 6, {"ab", "c"}), Of(Dtype::kF16, 2, 6, {"a", "bc"}));
}

// Expected values: xxhash.xxh3_128_hexdigest of the Python package xxhash 4.1.0 over
// bytes((i * i * 7 + i // 251) % 256 for i in range(count)).
TEST(FingerprintTest, LongBlocksHaveTheDigestsOfXxh3) {
  const auto hex_of = [](size_t count) {
    std::string bytes(count, '\0');
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>((i * i * 7 + i / 251) % 256);
    BlockHasher hasher;
    hasher.Update(bytes.data(), bytes.size());
    std::string hex;
    for (const unsigned char byte : hasher.Digest()) absl::StrAppend(&hex, absl::Hex(byte, absl::kZeroPad2));
    return hex;
  };
  EXPECT_EQ(hex_of(size_t{1} << 20), "0788c9bb7eb5204ed2392deca1ebeb6d");
  EXPECT_EQ(hex_of(100001), "4b05e6b67aea3ff70378b044b7fbe3a0");
}

TEST(FingerprintTest, BlocksHashedInPiecesGiveTheSameDigest) {
  const std::string bytes(100000, 'x');
  BlockHasher whole;
  whole.Update(bytes.data(), bytes.size());
  BlockHasher pieces;
  pieces.Update("noise", 5);
  pieces.Reset();
  for (size_t at = 0; at < bytes.size(); at += 777)
    pieces.Update(bytes.data() + at, std::min<size_t>(777, bytes.size() - at));
  EXPECT_EQ(whole.Digest(), pieces.Digest());
}

}  // namespace
}  // namespace embedding
