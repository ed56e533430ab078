// Scanners for the patterns of published pre-tokenizers.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "text/pattern.h"
#include "text/vocab_data.h"

namespace quire {

// Sets `match` to the leftmost match at or after `from` < text.size(); false if there is none. All
// matches of a text together take time linear in it.
using Scanner = bool (*)(std::string_view text, std::size_t from, TextSpan& match);

// The pattern that a ByteLevel pre-tokenizer cuts by.
std::string_view gpt2_regex();

// By the exact spelling of the regular expression (a line break may be written out or escaped);
// nullptr if it is not known.
Scanner find_scanner(std::string_view regex);

// The end of the word at `begin` < text.size(), where words follow one another without gaps and
// depend on what is behind them alone. Words of a text together take time linear in it.
using WordEnd = std::size_t (*)(std::string_view text, std::size_t begin);

// The scanner for the words that `steps` make of a text; nullptr if these steps are not known.
WordEnd find_word_end(std::span<const PreTokenizerStep> steps);

// Every known spelling, for tests.
std::span<const std::string_view> known_regexes();

// Runs of characters with and without some flags, for pre-tokenizers that are no pattern.
bool find_numeric(std::string_view text, std::size_t from, TextSpan& match);      // one character
bool find_punctuation(std::string_view text, std::size_t from, TextSpan& match);  // one character
bool find_white_space(std::string_view text, std::size_t from, TextSpan& match);  // one character
bool find_word_run(std::string_view text, std::size_t from, TextSpan& match);     // \w+|[^\w\s]+

}  // namespace quire
