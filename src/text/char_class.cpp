#include "text/char_class.h"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

#include "text/unicode_tables.h"

namespace quire {

namespace {

constexpr char32_t kCodes = 0x110000;
constexpr std::size_t kPageSize = 256;

constexpr bool is_white_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

CharFlags flags_of_category(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kUpperLetter | kWordChar;
    case UTF8PROC_CATEGORY_LL:
      return kLowerLetter | kWordChar;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kOtherLetter | kWordChar;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark | kAccent | kWordChar;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return kNumber | kNumeric | kWordChar;
    case UTF8PROC_CATEGORY_NO:
      return kNumber | kNumeric;
    case UTF8PROC_CATEGORY_PC:
      return kPunctuation | kPunctuationStep | kWordChar;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation | kPunctuationStep;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return code < 0x80 ? kSymbol | kPunctuationStep : kSymbol;
    default:
      return code == 0x200C || code == 0x200D ? kWordChar : CharFlags{0};
  }
}

CharFlags base_flags(char32_t code) {
  CharFlags flags = flags_of_category(code);
  if (is_white_space(code)) flags |= kSpace;
  if (code == '\n' || code == '\r') flags |= kNewline;
  return flags;
}

// Flags by code point, in pages; equal neighbouring pages are one.
class FlagTable {
 public:
  FlagTable() {
    std::vector<CharFlags> page(kPageSize);
    const auto differences = char_flag_ranges();
    std::size_t next = 0;  // of `differences`
    for (char32_t begin = 0; begin < kCodes; begin += kPageSize) {
      for (char32_t i = 0; i < kPageSize; ++i) {
        const char32_t code = begin + i;
        while (next < differences.size() && differences[next].last < code) ++next;
        const bool differs = next < differences.size() && differences[next].first <= code;
        page[i] = differs ? differences[next].flags : base_flags(code);
      }
      if (!flags_.empty() && std::equal(page.begin(), page.end(), flags_.end() - kPageSize)) {
        pages_[begin / kPageSize] = pages_[begin / kPageSize - 1];
      } else {
        pages_[begin / kPageSize] = static_cast<std::uint16_t>(flags_.size() / kPageSize);
        flags_.insert(flags_.end(), page.begin(), page.end());
      }
    }
  }

  CharFlags at(char32_t code) const {
    return flags_[pages_[code / kPageSize] * kPageSize + code % kPageSize];
  }

 private:
  std::array<std::uint16_t, kCodes / kPageSize> pages_{};
  std::vector<CharFlags> flags_;
};

}  // namespace

namespace internal {

FlaggedChar decode_flagged_char(std::string_view text, std::size_t position) {
  const Utf8Char c = decode_utf8(text, position);
  return c.valid ? FlaggedChar{char_flags(c.code), c.size} : FlaggedChar{};
}

}  // namespace internal

CharFlags char_flags(char32_t code) {
  static const FlagTable table;
  return code < kCodes ? table.at(code) : CharFlags{0};
}

}  // namespace quire
