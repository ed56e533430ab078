// The scanners that cut a whole text into words: GPT-2's pattern and its descendants. Each gives
// the end of the match at `begin` < text.size(). Internal to src/text.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/char_class.h"

namespace quire {

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_word_end(std::string_view text, std::size_t begin);

// The same after a step that isolates numeric characters (SmolLM, StarCoder), of both steps.
std::size_t digits_gpt2_word_end(std::string_view text, std::size_t begin);

// Falcon's three steps: runs of punctuation, GPT-2's pattern, then each [0-9][0-9][0-9].
std::size_t falcon_word_end(std::string_view text, std::size_t begin);

// DeepSeek-Coder's five steps: [\r\n], \s?\p{L}+, \s?\p{P}+,
// [\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+, numeric characters.
std::size_t deepseek_coder_word_end(std::string_view text, std::size_t begin);

bool is_cjk(char32_t code);  // of that range

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
struct Cl100kRules {
  CharFlags letters = kLetter;  // what a word is made of
  std::size_t max_digits = 3;
};
std::size_t cl100k_word_end(std::string_view text, std::size_t begin, Cl100kRules rules);

// With U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}], C = (?i:'s|...)?:
// [^\r\n\p{L}\p{N}]?U*L+C|[^\r\n\p{L}\p{N}]?U+L*C|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
struct O200kRules {
  bool contractions = true;  // C
  std::size_t max_digits = 3;
};
std::size_t o200k_word_end(std::string_view text, std::size_t begin, O200kRules rules);

// DeepSeek-V3's, which leaves some characters between its matches: 0 if none starts at `begin`.
// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t deepseek3_word_end(std::string_view text, std::size_t begin);

}  // namespace quire
