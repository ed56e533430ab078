#include "text/pre_tokenizer.h"

#include "text/char_class.h"
#include "text/utf8.h"

namespace quire {

namespace {

constexpr std::string_view kMetaspaceSymbol = "\xE2\x96\x81";  // U+2581

struct Char {
  CharClass cls = CharClass::kOther;
  std::size_t size = 1;
};

Char char_at(std::string_view text, std::size_t position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  if (lead < 0x80) return {char_class(lead), 1};
  const Utf8Char c = decode_utf8(text, position);
  return c.valid ? Char{char_class(c.code), c.size} : Char{CharClass::kOther, 1};
}

std::size_t end_of_run(std::string_view text, std::size_t position, CharClass cls) {
  while (position < text.size()) {
    const Char c = char_at(text, position);
    if (c.cls != cls) break;
    position += c.size;
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

// White space from `begin`: \s+(?!\S)|\s+, that is, all of it but the last character if more text
// follows and more than one is there. Where numbers stand alone, one ends the text.
std::size_t white_space_end(std::string_view text, std::size_t begin, bool isolate_numbers) {
  std::size_t last = begin;
  std::size_t end = begin;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (c.cls != CharClass::kSpace) {
      const bool text_ends = isolate_numbers && c.cls == CharClass::kNumber;
      return text_ends || last == begin ? end : last;
    }
    last = end;
    end += c.size;
  }
  return end;
}

std::size_t gpt2_word_end(std::string_view text, std::size_t begin, bool isolate_numbers) {
  if (const std::size_t end = contraction_end(text, begin); end != begin) return end;

  const Char first = char_at(text, begin);
  if (isolate_numbers && first.cls == CharClass::kNumber) return begin + first.size;
  if (first.cls != CharClass::kSpace) return end_of_run(text, begin, first.cls);

  const std::size_t next = begin + 1;
  if (text[begin] == ' ' && next < text.size()) {
    const CharClass cls = char_at(text, next).cls;
    const bool text_ends = isolate_numbers && cls == CharClass::kNumber;
    if (cls != CharClass::kSpace && !text_ends) return end_of_run(text, next, cls);
  }
  return white_space_end(text, begin, isolate_numbers);
}

}  // namespace

std::size_t word_end(PreTokenizer pre_tokenizer, std::string_view text, std::size_t begin) {
  switch (pre_tokenizer) {
    case PreTokenizer::kGpt2:
      return gpt2_word_end(text, begin, false);
    case PreTokenizer::kSmolLm:
      return gpt2_word_end(text, begin, true);
    case PreTokenizer::kMetaspace:
      return std::min(text.size(), text.find(kMetaspaceSymbol, begin + 1));
    case PreTokenizer::kNone:
      break;
  }
  return text.size();
}

}  // namespace quire
