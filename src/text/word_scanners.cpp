#include "text/word_scanners.h"

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
// follows and more than one is there.
std::size_t white_space_end(std::string_view text, std::size_t begin) {
  std::size_t last = begin;
  std::size_t end = begin;
  while (end < text.size()) {
    const FlaggedChar c = char_at(text, end);
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

// U*L+ at `begin`, or `begin` if it does not match. U* takes all it can; unless L+ can go on there,
// it gives back as far as the last character that is of both.
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

}  // namespace

std::size_t gpt2_word_end(std::string_view text, std::size_t begin) {
  if (const std::size_t end = contraction_end(text, begin); end != begin) return end;

  std::size_t word = begin;
  FlaggedChar c = char_at(text, begin);
  if (text[begin] == ' ') {
    word = begin + 1;
    if (word == text.size()) return word;
    c = char_at(text, word);
  }
  if ((c.flags & kSpace) != 0) return white_space_end(text, begin);
  if ((c.flags & kLetter) != 0) return end_of_run(text, word + c.size, kLetter);
  if ((c.flags & kNumber) != 0) return end_of_run(text, word + c.size, kNumber);
  return end_of_run_without(text, word + c.size, kSpace | kLetter | kNumber);
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
