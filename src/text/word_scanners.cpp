#include "text/word_scanners.h"

#include "text/utf8.h"

namespace quire {

namespace {

std::size_t end_of_run(std::string_view text, std::size_t position, CharFlags any_of) {
  while (position < text.size()) {
    const FlaggedChar c = char_at(text, position);
    if ((c.flags & any_of) == 0) break;
    position += c.size;
  }
  return position;
}

std::size_t end_of_run_without(std::string_view text, std::size_t position, CharFlags none_of) {
  while (position < text.size()) {
    const FlaggedChar c = char_at(text, position);
    if ((c.flags & none_of) != 0) break;
    position += c.size;
  }
  return position;
}

bool flags_at(std::string_view text, std::size_t position, CharFlags any_of) {
  return position < text.size() && (char_at(text, position).flags & any_of) != 0;
}

std::size_t end_of_bytes(std::string_view text, std::size_t position, std::string_view any_of) {
  while (position < text.size() && any_of.find(text[position]) != std::string_view::npos) {
    ++position;
  }
  return position;
}

// The end of 's|'t|'re|'ve|'m|'ll|'d at `begin`, or `begin`.
std::size_t contraction_end(std::string_view text, std::size_t begin) {
  if (text[begin] != '\'') return begin;
  const std::string_view rest = text.substr(begin + 1, 2);
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (rest.starts_with(ending)) return begin + 1 + ending.size();
  }
  return begin;
}

// The same whatever the case; U+017F is an "s" too.
std::size_t any_case_contraction_end(std::string_view text, std::size_t begin) {
  if (begin >= text.size() || text[begin] != '\'') return begin;
  const std::string_view rest = text.substr(begin + 1, 2);
  if (rest == "\xC5\xBF") return begin + 3;
  const auto lower = [&](std::size_t i) {
    return i < rest.size() ? static_cast<char>(rest[i] | 0x20) : '\0';
  };
  const char first = lower(0);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  const char second = lower(1);
  const bool two =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return two ? begin + 3 : begin;
}

// White space from `begin`: \s+(?!\S)|\s+, that is, all of it but the last character if more text
// follows and more than one is there. Text ends before a character that `stops`.
template <typename Stops>
std::size_t white_space_end(std::string_view text, std::size_t begin, const Stops& stops) {
  std::size_t last = begin;
  std::size_t end = begin;
  while (end < text.size()) {
    const FlaggedChar c = char_at(text, end);
    if (stops(c)) break;
    if ((c.flags & kSpace) == 0) return last == begin ? end : last;
    last = end;
    end += c.size;
  }
  return end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at white space.
std::size_t lines_end(std::string_view text, std::size_t begin) {
  std::size_t after_newline = begin;
  std::size_t last = begin;
  std::size_t end = begin;
  while (end < text.size()) {
    const FlaggedChar c = char_at(text, end);
    if ((c.flags & kSpace) == 0) break;
    last = end;
    end += c.size;
    if ((c.flags & kNewline) != 0) after_newline = end;
  }
  if (after_newline != begin) return after_newline;
  return end == text.size() || last == begin ? end : last;
}

std::size_t numbers_end(std::string_view text, std::size_t begin, std::size_t max_digits) {
  std::size_t end = begin;
  for (std::size_t i = 0; i < max_digits && flags_at(text, end, kNumber); ++i) {
    end += char_at(text, end).size;
  }
  return end;
}

constexpr CharFlags kO200kUpper = kUpperLetter | kOtherLetter | kMark;
constexpr CharFlags kO200kLower = kLowerLetter | kOtherLetter | kMark;

// U*L+ at `begin`, or `begin` if it does not match. U* matches all it can; unless L+ can go on
// there, it gives back as far as the last character that is of both.
std::size_t upper_then_lower_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  std::size_t after_both = begin;
  while (end < text.size()) {
    const FlaggedChar c = char_at(text, end);
    if ((c.flags & kO200kUpper) == 0) break;
    end += c.size;
    if ((c.flags & kO200kLower) != 0) after_both = end;
  }
  return flags_at(text, end, kO200kLower) ? end_of_run(text, end, kO200kLower) : after_both;
}

// U+L* at `begin`, or `begin` if it does not match.
std::size_t upper_end(std::string_view text, std::size_t begin) {
  const std::size_t end = end_of_run(text, begin, kO200kUpper);
  return end == begin ? begin : end_of_run(text, end, kO200kLower);
}

// A word with or without a character before it, or `begin`.
std::size_t cased_word_end(std::string_view text, std::size_t begin) {
  const FlaggedChar first = char_at(text, begin);
  const bool may_precede = (first.flags & (kNewline | kLetter | kNumber)) == 0;
  const std::size_t next = begin + first.size;
  for (const auto& word_end : {upper_then_lower_end, upper_end}) {
    if (may_precede) {
      if (const std::size_t end = word_end(text, next); end != next) return end;
    }
    if (const std::size_t end = word_end(text, begin); end != begin) return end;
  }
  return begin;
}

// GPT-2's pattern at a character that does not `stop`: text ends before one that does.
template <typename Stops>
std::size_t gpt2_word_end_before(std::string_view text, std::size_t begin, const Stops& stops) {
  if (const std::size_t end = contraction_end(text, begin); end != begin) return end;

  std::size_t word = begin;
  FlaggedChar c = char_at(text, begin);
  if (text[begin] == ' ') {
    word = begin + 1;
    if (word == text.size()) return word;
    c = char_at(text, word);
    if (stops(c)) return word;
  }
  if ((c.flags & kSpace) != 0) return white_space_end(text, begin, stops);
  constexpr CharFlags kKinds = kSpace | kLetter | kNumber;
  const CharFlags kind = (c.flags & kLetter) != 0 ? kLetter : c.flags & kNumber;
  std::size_t end = word + c.size;
  while (end < text.size()) {
    const FlaggedChar next = char_at(text, end);
    const bool goes_on = kind != 0 ? (next.flags & kind) != 0 : (next.flags & kKinds) == 0;
    if (!goes_on || stops(next)) break;
    end += next.size;
  }
  return end;
}

bool never_stops(FlaggedChar) { return false; }
bool is_numeric(FlaggedChar c) { return (c.flags & kNumeric) != 0; }
// [\p{P}\$\+<=>\^~\|`], which has all symbols of ASCII.
bool is_falcon_sign(FlaggedChar c) {
  return (c.flags & (c.size == 1 ? kPunctuation | kSymbol : kPunctuation)) != 0;
}

// Numbers from `number` on, cut at [0-9][0-9][0-9]: the end of the first such group if it stands at
// `begin`, else where it begins, or where the numbers end.
std::size_t falcon_numbers_end(std::string_view text, std::size_t begin, std::size_t number) {
  std::size_t digits = 0;
  std::size_t end = number;
  while (end < text.size()) {
    const FlaggedChar c = char_at(text, end);
    if ((c.flags & kNumber) == 0 || is_falcon_sign(c)) break;
    end += c.size;
    digits = c.size == 1 ? digits + 1 : 0;
    if (digits == 3) return end - 3 == begin ? end : end - 3;
  }
  return end;
}

// A character of a text and whether it is in DeepSeek-Coder's range, which isolates its runs.
struct CjkChar : FlaggedChar {
  bool cjk = false;

  CjkChar(std::string_view text, std::size_t position) : FlaggedChar(char_at(text, position)) {
    if (size > 1) cjk = is_cjk(decode_utf8(text, position).code);
  }
};

}  // namespace

bool is_cjk(char32_t code) {
  return (code >= 0x800 && code <= 0x9FA5) || (code >= 0xAC00 && code <= 0xD7FF);
}

std::size_t gpt2_word_end(std::string_view text, std::size_t begin) {
  return gpt2_word_end_before(text, begin, never_stops);
}

std::size_t digits_gpt2_word_end(std::string_view text, std::size_t begin) {
  const FlaggedChar first = char_at(text, begin);
  if (is_numeric(first)) return begin + first.size;
  return gpt2_word_end_before(text, begin, is_numeric);
}

std::size_t falcon_word_end(std::string_view text, std::size_t begin) {
  const FlaggedChar first = char_at(text, begin);
  if (is_falcon_sign(first)) {
    std::size_t end = begin + first.size;
    while (end < text.size() && is_falcon_sign(char_at(text, end))) end += char_at(text, end).size;
    return end;
  }
  const std::size_t word = text[begin] == ' ' && begin + 1 < text.size() ? begin + 1 : begin;
  const FlaggedChar c = char_at(text, word);
  const bool number = (c.flags & kNumber) != 0 && !is_falcon_sign(c);
  return number ? falcon_numbers_end(text, begin, word)
                : gpt2_word_end_before(text, begin, is_falcon_sign);
}

std::size_t deepseek_coder_word_end(std::string_view text, std::size_t begin) {
  constexpr CharFlags kWords = kLetter | kPunctuation;
  const CjkChar first(text, begin);
  std::size_t end = begin + first.size;
  if ((first.flags & (kNewline | kNumeric)) != 0 || end == text.size()) return end;
  // Letters or punctuation, maybe behind a space; or what is neither, up to such a space.
  CharFlags kind = first.flags & kWords;
  if ((first.flags & kSpace) != 0) {
    const CjkChar next(text, end);
    kind = next.flags & kWords;
    if (kind != 0 && next.cjk != first.cjk) return end;
  }
  if ((kind & kLetter) != 0) kind = kLetter;
  while (end < text.size()) {
    const CjkChar c(text, end);
    if (c.cjk != first.cjk || (c.flags & (kNewline | kNumeric)) != 0) break;
    if (kind != 0 && (c.flags & kind) == 0) break;
    if (kind == 0) {
      if ((c.flags & kWords) != 0) break;
      const std::size_t next = end + c.size;
      if ((c.flags & kSpace) != 0 && flags_at(text, next, kWords)) break;
    }
    end += c.size;
  }
  return end;
}

std::size_t cl100k_word_end(std::string_view text, std::size_t begin, Cl100kRules rules) {
  if (const std::size_t end = any_case_contraction_end(text, begin); end != begin) return end;

  const FlaggedChar first = char_at(text, begin);
  const std::size_t next = begin + first.size;
  if ((first.flags & (kNewline | kLetter | kNumber)) == 0 && flags_at(text, next, rules.letters)) {
    return end_of_run(text, next, rules.letters);
  }
  if ((first.flags & rules.letters) != 0) return end_of_run(text, next, rules.letters);
  if ((first.flags & kNumber) != 0) return numbers_end(text, begin, rules.max_digits);

  const CharFlags ends = kSpace | kNumber | rules.letters;
  const std::size_t other = text[begin] == ' ' ? begin + 1 : begin;
  const std::size_t end = end_of_run_without(text, other, ends);
  if (end != other) return end_of_bytes(text, end, "\r\n");
  return lines_end(text, begin);
}

std::size_t o200k_word_end(std::string_view text, std::size_t begin, O200kRules rules) {
  const std::size_t word = cased_word_end(text, begin);
  if (word != begin) return rules.contractions ? any_case_contraction_end(text, word) : word;

  const FlaggedChar first = char_at(text, begin);
  if ((first.flags & kNumber) != 0) return numbers_end(text, begin, rules.max_digits);
  const std::size_t other = text[begin] == ' ' ? begin + 1 : begin;
  const std::size_t end = end_of_run_without(text, other, kSpace | kLetter | kNumber);
  if (end != other) return end_of_bytes(text, end, "\r\n/");
  return lines_end(text, begin);
}

std::size_t deepseek3_word_end(std::string_view text, std::size_t begin) {
  constexpr CharFlags kLetters = kLetter | kMark;
  constexpr CharFlags kSigns = kPunctuation | kSymbol;
  const FlaggedChar first = char_at(text, begin);
  const std::size_t next = begin + first.size;
  const auto is_ascii_letter = [&](std::size_t at) {
    return at < text.size() && static_cast<unsigned char>(text[at]) < 0x80 &&
           flags_at(text, at, kLetter);
  };
  if (first.size == 1 && (first.flags & kSigns) != 0 && is_ascii_letter(next)) {
    std::size_t end = next;
    while (is_ascii_letter(end)) ++end;
    return end;
  }
  if ((first.flags & kLetters) != 0) return end_of_run(text, next, kLetters);
  if ((first.flags & (kNewline | kSigns)) == 0 && flags_at(text, next, kLetters)) {
    return end_of_run(text, next, kLetters);
  }
  const std::size_t signs = text[begin] == ' ' ? begin + 1 : begin;
  const std::size_t end = end_of_run(text, signs, kSigns);
  if (end != signs) return end_of_bytes(text, end, "\r\n");
  return (first.flags & kSpace) != 0 ? lines_end(text, begin) : 0;
}

}  // namespace quire
