#include "proto/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace embedding {
namespace {

// All characters by their definition (RFC 3629, section 3), none by the code under test.
std::string Encode(uint32_t c) {
  std::string out;
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 63));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 63));
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  }
  return out;
}

TEST(Utf8Test, EveryCharacterIsValidAndNoSurrogateIs) {
  for (uint32_t c = 0; c < 0x120000; ++c) {
    const std::string bytes = Encode(c);
    const bool valid = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
    ASSERT_EQ(Utf8CharacterSize(bytes), valid ? bytes.size() : 0u) << std::hex << c;
    ASSERT_EQ(IsValidUtf8("twelve ASCII" + bytes + "behind"), valid) << std::hex << c;
    if (valid && bytes.size() > 1) {
      ASSERT_FALSE(IsValidUtf8(bytes.substr(0, bytes.size() - 1))) << std::hex << c;
    }
  }
}

TEST(Utf8Test, LongerFormsThanNeededAreInvalid) {
  for (const char* bytes :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf"}) {
    EXPECT_FALSE(IsValidUtf8(bytes));
  }
}

TEST(Utf8Test, LoneBytesAboveAsciiAreInvalid) {
  for (int byte = 0x80; byte < 0x100; ++byte)
    EXPECT_FALSE(IsValidUtf8(std::string(1, static_cast<char>(byte)))) << byte;
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_EQ(Utf8CharacterSize(""), 0u);
}

}  // namespace
}  // namespace embedding
