// Unicode facts in which the tokenizers library differs from utf8proc's version of Unicode; see
// scripts/goldens/tokenizer_unicode.py. Internal to src/text.
#pragma once

#include <cstdint>
#include <span>

namespace quire {

// The flags (text/char_class.h) of the code points first..last, in place of those by category.
struct CharFlagRange {
  char32_t first;
  char32_t last;
  std::uint16_t flags;
};
std::span<const CharFlagRange> char_flag_ranges();

// The lower case of the code points first..last is so much further on.
struct LowerCaseRange {
  char32_t first;
  char32_t last;
  std::int32_t distance;
};
std::span<const LowerCaseRange> lower_case_ranges();

}  // namespace quire
