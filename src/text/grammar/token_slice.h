// Tokens of one kind of text, which most places of a grammar that allow one of them allow all of:
// what may stand in a JSON string without an escape, say. Where an automaton's state allows the
// kind, these tokens are allowed by one sweep over words, and only the others are walked. (The idea
// is llguidance's "slicer".) Internal to src/text/grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/grammar/char_set.h"
#include "text/grammar/dfa.h"
#include "text/grammar/token_trie.h"

namespace quire {

struct TokenSlice {
  // Of at most `count` characters, incomplete ones included.
  struct Part {
    std::uint32_t count = 0;
    std::vector<std::uint32_t> mask;  // the tokens of the slice that are so short
    TokenTrie rest;                   // all tokens but those
  };

  // `tokens`: bytes and ids, sorted; those that begin a text of characters of `set` belong to the
  // slice, also where they end within a character. `part_counts`: of the parts but the last,
  // rising.
  TokenSlice(const CharSet& set, std::span<const std::uint32_t> part_counts,
             std::span<const std::pair<std::string_view, TokenId>> tokens, std::size_t mask_words);

  Dfa character;            // one character of the kind
  std::vector<Part> parts;  // by rising count; the last has the whole slice
};

}  // namespace quire
