// Classes of characters that pre-tokenizer patterns speak of, by the Unicode Character Database.
#pragma once

#include <cstdint>

namespace quire {

enum class CharClass : std::uint8_t {
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s: the White_Space property
  kOther,
};

CharClass char_class(char32_t code);

// \w as Unicode's UTS #18 defines it: Alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_char(char32_t code);

}  // namespace quire
