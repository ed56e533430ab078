#include "base/printable.h"

#include <cstddef>
#include <string>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Printable, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(printable("blk.0 {ü} 모델 😀"), "blk.0 {ü} 모델 😀");
  EXPECT_EQ(printable("a\x1b[2J\n\x7f"), "a\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");           // a control character of two bytes
  EXPECT_EQ(printable("\xff\xe2\x82"), "\\xff\\xe2\\x82");  // not UTF-8, cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(Printable, EscapesWhatBreaksOrReordersLines) {
  EXPECT_EQ(printable("a\u2028b\u2029"), "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9");
  EXPECT_EQ(printable("a\u202eb\u2066\u200f"), "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\\xe2\\x80\\x8f");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 5), "ab...");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("aüüü", 6), "aü...");
  EXPECT_EQ(printable("\n\n", 7), "\\x0a...");
  EXPECT_EQ(printable("\n\n", 6), "...");
}

TEST(Printable, NeverGivesMoreThanTheBound) {
  for (const std::string& raw : {std::string(300'000, '\x1b'), std::string(300'000, 'a')}) {
    for (const std::size_t bound : {3U, 10U, 120U, 2000U}) {
      EXPECT_LE(printable(raw, bound).size(), bound);
      EXPECT_GT(printable(raw, bound).size() + 4, bound);
    }
  }
}

TEST(Printable, GivesItsOwnAgain) {
  const std::string once = printable("a\x1b\\ü\n" + std::string(5000, 'x'));
  EXPECT_EQ(printable(once), once);
}

}  // namespace
}  // namespace quire
