#include "weights/printable.h"

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

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("aü", 2), "a...");
}

}  // namespace
}  // namespace quire
