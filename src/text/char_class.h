// What pre-tokenizer patterns and normalizers ask about a character, by the Unicode Character
// Database, in the versions that the tokenizers library has of it (text/unicode_tables.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/utf8.h"

namespace quire {

// A set of the flags below.
using CharFlags = std::uint16_t;

inline constexpr CharFlags kUpperLetter = 1 << 0;       // \p{Lu}, \p{Lt}
inline constexpr CharFlags kLowerLetter = 1 << 1;       // \p{Ll}
inline constexpr CharFlags kOtherLetter = 1 << 2;       // \p{Lm}, \p{Lo}
inline constexpr CharFlags kMark = 1 << 3;              // \p{M}
inline constexpr CharFlags kNumber = 1 << 4;            // \p{N}
inline constexpr CharFlags kPunctuation = 1 << 5;       // \p{P}
inline constexpr CharFlags kSymbol = 1 << 6;            // \p{S}
inline constexpr CharFlags kSpace = 1 << 7;             // \s: the White_Space property
inline constexpr CharFlags kNewline = 1 << 8;           // \r, \n
inline constexpr CharFlags kWordChar = 1 << 9;          // \w as in UTS #18
inline constexpr CharFlags kNumeric = 1 << 10;          // cut by a Digits pre-tokenizer
inline constexpr CharFlags kPunctuationStep = 1 << 11;  // cut by a Punctuation pre-tokenizer
inline constexpr CharFlags kAccent = 1 << 12;           // dropped by a StripAccents normalizer
inline constexpr CharFlags kInert = 1 << 13;            // younger than normalization: left as it is
inline constexpr CharFlags kLetter = kUpperLetter | kLowerLetter | kOtherLetter;  // \p{L}

// No flags for a code point beyond Unicode's.
CharFlags char_flags(char32_t code);

// A character of a text. Bytes that are not UTF-8 are characters of one byte and no flags.
struct FlaggedChar {
  CharFlags flags = 0;
  std::uint8_t size = 1;
};

namespace internal {

constexpr CharFlags ascii_flags(unsigned code) {
  constexpr std::string_view kSymbols = "$+<=>^`|~";
  if (code >= 'A' && code <= 'Z') return kUpperLetter | kWordChar;
  if (code >= 'a' && code <= 'z') return kLowerLetter | kWordChar;
  if (code >= '0' && code <= '9') return kNumber | kNumeric | kWordChar;
  if (code == '_') return kPunctuation | kPunctuationStep | kWordChar;
  if (code == '\n' || code == '\r') return kSpace | kNewline;
  if (code == ' ' || (code >= 0x09 && code <= 0x0D)) return kSpace;
  if (code < 0x20 || code == 0x7F) return 0;
  const bool symbol = kSymbols.find(static_cast<char>(code)) != std::string_view::npos;
  return static_cast<CharFlags>((symbol ? kSymbol : kPunctuation) | kPunctuationStep);
}

// Known when compiling: most text needs neither the large table nor the check for its first use.
inline constexpr auto kAsciiFlags = [] {
  std::array<CharFlags, 128> table{};
  for (unsigned code = 0; code < 128; ++code) table[code] = ascii_flags(code);
  return table;
}();

FlaggedChar decode_flagged_char(std::string_view text, std::size_t position);
}  // namespace internal

// The character at `position` < text.size().
inline FlaggedChar char_at(std::string_view text, std::size_t position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  if (lead < 0x80) return {internal::kAsciiFlags[lead], 1};
  return internal::decode_flagged_char(text, position);
}

}  // namespace quire
