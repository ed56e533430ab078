// A set of Unicode scalar values, as classes of regular expressions and grammars mean them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace quire {

// Code points first..last, both among them. Surrogates (D800..DFFF) belong to no set.
struct CharRange {
  char32_t first = 0;
  char32_t last = 0;
  friend auto operator<=>(const CharRange&, const CharRange&) = default;
};

class CharSet {
 public:
  static constexpr char32_t kLastCode = 0x10FFFF;

  CharSet() = default;
  // In any order, overlapping or not; what is no scalar value is left out.
  CharSet(std::initializer_list<CharRange> ranges);
  explicit CharSet(std::vector<CharRange> ranges);

  static CharSet all();
  static CharSet ascii_digits();
  static CharSet ascii_word();   // \w: [0-9A-Za-z_]
  static CharSet ascii_space();  // [\t-\r ]
  static CharSet ecma_space();   // \s of ECMA-262: WhiteSpace and LineTerminator
  // \p{..}: a general category by its short or long name ("Lu", "L", "Uppercase_Letter"), also
  // "Any", "ASCII"; nullopt for what is none (scripts and other properties).
  static std::optional<CharSet> property(std::string_view name);

  CharSet operator|(const CharSet& other) const;
  CharSet operator&(const CharSet& other) const;
  CharSet operator~() const;
  // With the other case of each letter that has one.
  CharSet with_both_cases() const;

  bool contains(char32_t code) const;
  bool empty() const { return ranges_.empty(); }
  // Sorted, with gaps between them.
  std::span<const CharRange> ranges() const { return ranges_; }
  friend auto operator<=>(const CharSet&, const CharSet&) = default;

 private:
  void normalize();

  std::vector<CharRange> ranges_;
};

}  // namespace quire
