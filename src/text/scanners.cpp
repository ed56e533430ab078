#include "text/scanners.h"

#include <algorithm>
#include <array>
#include <string>

#include "text/char_class.h"
#include "text/utf8.h"
#include "text/word_scanners.h"

namespace quire {

namespace {

template <std::size_t (*WordEnd)(std::string_view, std::size_t)>
bool find_word(std::string_view text, std::size_t from, TextSpan& match) {
  match = {from, WordEnd(text, from)};
  return true;
}

template <CharFlags Letters, std::size_t MaxDigits>
std::size_t cl100k(std::string_view text, std::size_t begin) {
  return cl100k_word_end(text, begin, {.letters = Letters, .max_digits = MaxDigits});
}

template <bool Contractions, std::size_t MaxDigits>
std::size_t o200k(std::string_view text, std::size_t begin) {
  return o200k_word_end(text, begin, {.contractions = Contractions, .max_digits = MaxDigits});
}

bool find_deepseek3(std::string_view text, std::size_t from, TextSpan& match) {
  for (std::size_t begin = from; begin < text.size(); begin += char_at(text, begin).size) {
    if (const std::size_t end = deepseek3_word_end(text, begin); end != 0) {
      match = {begin, end};
      return true;
    }
  }
  return false;
}

CharFlags flags_of(char32_t code) {
  return code < 0x80 ? internal::kAsciiFlags[code] : char_flags(code);
}

// The first run of at least Min and at most Max characters that `holds` is true of.
template <std::size_t Min, std::size_t Max, typename Holds>
bool find_run(std::string_view text, std::size_t from, TextSpan& match, const Holds& holds) {
  std::size_t begin = from;
  std::size_t count = 0;
  for (std::size_t at = from; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    Utf8Char decoded{lead, 1, true, false};
    if (lead >= 0x80) decoded = decode_utf8(text, at);
    const std::size_t size = decoded.valid ? decoded.size : 1;
    if (holds(decoded.valid ? decoded.code : char32_t{0x110000})) {
      if (count++ == 0) begin = at;
      if (count == Max) {
        match = {begin, at + size};
        return true;
      }
    } else {
      if (count >= Min) {
        match = {begin, at};
        return true;
      }
      count = 0;
    }
    at += size;
  }
  match = {begin, text.size()};
  return count >= Min;
}

template <CharFlags Flags, std::size_t Max>
bool find_flags(std::string_view text, std::size_t from, TextSpan& match) {
  return find_run<1, Max>(text, from, match,
                          [](char32_t code) { return (flags_of(code) & Flags) != 0; });
}

// \s?X+ for a class of characters.
template <CharFlags Flags>
bool find_spaced_run(std::string_view text, std::size_t from, TextSpan& match) {
  std::size_t begin = from;  // of the white space before `at`, or `at`
  for (std::size_t at = from; at < text.size();) {
    const FlaggedChar c = char_at(text, at);
    if ((c.flags & Flags) != 0) {
      std::size_t end = at + c.size;
      while (end < text.size()) {
        const FlaggedChar next = char_at(text, end);
        if ((next.flags & Flags) == 0) break;
        end += next.size;
      }
      match = {begin, end};
      return true;
    }
    begin = (c.flags & kSpace) != 0 ? at : at + c.size;
    at += c.size;
  }
  return false;
}

// \s+$, where $ is the end of any line.
bool find_space_at_line_end(std::string_view text, std::size_t from, TextSpan& match) {
  for (std::size_t begin = from; begin < text.size();) {
    std::size_t end = begin;
    std::size_t line_end = begin;
    while (end < text.size()) {
      const FlaggedChar c = char_at(text, end);
      if ((c.flags & kSpace) == 0) break;
      if (text[end] == '\n') line_end = end;
      end += c.size;
    }
    if (end == text.size()) line_end = end;
    if (line_end != begin) {
      match = {begin, line_end};
      return true;
    }
    begin = std::max(end, begin + char_at(text, begin).size);
  }
  return false;
}

bool is_cjk_or_kana(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
}

constexpr bool is_digit(char32_t code) { return code >= '0' && code <= '9'; }

constexpr std::size_t kAny = SIZE_MAX;

struct Known {
  std::string_view regex;
  Scanner scanner;
  WordEnd word_end = nullptr;  // of those whose matches are all of a text
};

template <std::size_t (*End)(std::string_view, std::size_t)>
constexpr Known known_words(std::string_view regex) {
  return {regex, find_word<End>, End};
}

#define QUIRE_LINES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define QUIRE_ANY_CASE_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define QUIRE_O200K_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define QUIRE_O200K_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"

constexpr Known kKnown[] = {
    // GPT-2; SmolLM, StarCoder, Falcon and others within a sequence of steps.
    known_words<gpt2_word_end>(
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
    known_words<gpt2_word_end>(
        R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
    // cl100k (GPT-4) as Llama 3 has it.
    known_words<cl100k<kLetter, 3>>(
        QUIRE_ANY_CASE_CONTRACTIONS
        R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" QUIRE_LINES),
    // Qwen2, 2.5 and 3.
    known_words<cl100k<kLetter, 1>>(
        QUIRE_ANY_CASE_CONTRACTIONS
        R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" QUIRE_LINES),
    // Qwen3.5.
    known_words<cl100k<kLetter | kMark, 1>>(
        QUIRE_ANY_CASE_CONTRACTIONS
        R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" QUIRE_LINES),
    // o200k (GPT-4o).
    known_words<o200k<true, 3>>(R"([^\r\n\p{L}\p{N}]?)" QUIRE_O200K_UPPER "*" QUIRE_O200K_LOWER
                                "+" QUIRE_ANY_CASE_CONTRACTIONS "?"
                                R"(|[^\r\n\p{L}\p{N}]?)" QUIRE_O200K_UPPER "+" QUIRE_O200K_LOWER
                                "*" QUIRE_ANY_CASE_CONTRACTIONS "?"
                                R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" QUIRE_LINES),
    // Mistral's tekken.
    known_words<o200k<false, 1>>(R"([^\r\n\p{L}\p{N}]?)" QUIRE_O200K_UPPER "*" QUIRE_O200K_LOWER "+"
                                 R"(|[^\r\n\p{L}\p{N}]?)" QUIRE_O200K_UPPER "+" QUIRE_O200K_LOWER
                                 "*"
                                 R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" QUIRE_LINES),
    // DeepSeek-V3, the last of three steps.
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
     R"( ?[\p{P}\p{S}]+[\r\n]*|)" QUIRE_LINES,
     find_deepseek3},
    // The steps of DeepSeek, Falcon and others.
    {"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
     [](std::string_view text, std::size_t from, TextSpan& match) {
       return find_run<1, kAny>(text, from, match, is_cjk_or_kana);
     }},
    {"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+",
     [](std::string_view text, std::size_t from, TextSpan& match) {
       return find_run<1, kAny>(text, from, match, is_cjk);
     }},
    {R"([\r\n])", find_flags<kNewline, 1>},
    {R"(\s?\p{L}+)", find_spaced_run<kLetter>},
    {R"(\s?\p{P}+)", find_spaced_run<kPunctuation>},
    {R"(\s+$)", find_space_at_line_end},
    {R"(\p{N})", find_flags<kNumber, 1>},
    {R"(\p{N}{1,3})", find_flags<kNumber, 3>},
    {R"(\p{N}+)", find_flags<kNumber, kAny>},
    {"[0-9][0-9][0-9]",
     [](std::string_view text, std::size_t from, TextSpan& match) {
       return find_run<3, 3>(text, from, match, is_digit);
     }},
    {R"([\p{P}\$\+<=>\^~\|`]+)",
     [](std::string_view text, std::size_t from, TextSpan& match) {
       return find_run<1, kAny>(text, from, match, [](char32_t code) {
         return (char_flags(code) & (code < 0x80 ? kPunctuation | kSymbol : kPunctuation)) != 0;
       });
     }},
};

// Steps that one scanner does at once; without a regular expression: a Digits step.
struct KnownSteps {
  std::array<std::string_view, 5> regexes;
  std::size_t count;
  WordEnd word_end;
};

constexpr KnownSteps kKnownSteps[] = {
    {{"", kKnown[0].regex}, 2, digits_gpt2_word_end},
    {{R"([\p{P}\$\+<=>\^~\|`]+)", kKnown[0].regex, "[0-9][0-9][0-9]"}, 3, falcon_word_end},
    {{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+",
      ""},
     5,
     deepseek_coder_word_end},
};

#undef QUIRE_LINES
#undef QUIRE_ANY_CASE_CONTRACTIONS
#undef QUIRE_O200K_UPPER
#undef QUIRE_O200K_LOWER

constexpr auto kKnownRegexes = [] {
  std::array<std::string_view, std::size(kKnown)> regexes;
  for (std::size_t i = 0; i < regexes.size(); ++i) regexes[i] = kKnown[i].regex;
  return regexes;
}();

// A pattern may contain line breaks themselves where others write \r and \n.
std::string escape_line_breaks(std::string_view regex) {
  std::string escaped;
  for (const char c : regex) {
    if (c == '\r') {
      escaped += R"(\r)";
    } else if (c == '\n') {
      escaped += R"(\n)";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

const Known* find_known(std::string_view regex) {
  const auto* known = std::ranges::find(kKnown, escape_line_breaks(regex), &Known::regex);
  return known == std::end(kKnown) ? nullptr : known;
}

// Whether all that a step finds, and what lies between, are words of their own.
bool isolates(const PreTokenizerStep& step) {
  const bool is_regex = step.kind == PreTokenizerStep::Kind::kSplit && step.pattern.is_regex;
  return (is_regex || step.kind == PreTokenizerStep::Kind::kDigits) &&
         step.behavior == SplitBehavior::kIsolated;
}

bool are_steps(std::span<const PreTokenizerStep> steps, const KnownSteps& known) {
  const auto regexes = std::span(known.regexes).first(known.count);
  return std::ranges::equal(steps, regexes, [](const auto& step, std::string_view regex) {
    if (step.kind == PreTokenizerStep::Kind::kDigits) return regex.empty();
    return !regex.empty() && escape_line_breaks(step.pattern.text) == regex;
  });
}

}  // namespace

std::string_view gpt2_regex() { return kKnown[0].regex; }

Scanner find_scanner(std::string_view regex) {
  const Known* known = find_known(regex);
  return known == nullptr ? nullptr : known->scanner;
}

WordEnd find_word_end(std::span<const PreTokenizerStep> steps) {
  if (steps.empty() || !std::ranges::all_of(steps, isolates)) return nullptr;
  for (const KnownSteps& known : kKnownSteps) {
    if (are_steps(steps, known)) return known.word_end;
  }
  if (steps.size() != 1) return nullptr;
  const Known* known = find_known(steps.front().pattern.text);
  return known == nullptr ? nullptr : known->word_end;
}

std::span<const std::string_view> known_regexes() { return kKnownRegexes; }

bool find_numeric(std::string_view text, std::size_t from, TextSpan& match) {
  return find_flags<kNumeric, 1>(text, from, match);
}

bool find_punctuation(std::string_view text, std::size_t from, TextSpan& match) {
  return find_flags<kPunctuationStep, 1>(text, from, match);
}

bool find_white_space(std::string_view text, std::size_t from, TextSpan& match) {
  return find_flags<kSpace, 1>(text, from, match);
}

bool find_word_run(std::string_view text, std::size_t from, TextSpan& match) {
  std::size_t begin = from;
  while (begin < text.size() && (char_at(text, begin).flags & kSpace) != 0) {
    begin += char_at(text, begin).size;
  }
  if (begin == text.size()) return false;
  constexpr CharFlags kKinds = kWordChar | kSpace;
  const CharFlags kind = char_at(text, begin).flags & kKinds;
  std::size_t end = begin;
  while (end < text.size()) {
    const FlaggedChar c = char_at(text, end);
    if ((c.flags & kKinds) != kind) break;
    end += c.size;
  }
  match = {begin, end};
  return true;
}

}  // namespace quire
