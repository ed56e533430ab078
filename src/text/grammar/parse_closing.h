// How few tokens bring a text to its end, from a parse set on. Internal to src/text/grammar.
//
// A set's closing text is the shortest in bytes, among those the first by an order of bytes, so
// that what is left of it behind any of its beginnings is the closing text there. It is split into
// as few tokens as can be. So their number is an upper bound of the least number of tokens, and it
// falls by one with each of them: a text that can be closed within so many tokens stays closable.
//
// Lengths of rules' texts by Knuth, "A generalization of Dijkstra's algorithm" (1977).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/grammar/parse_store.h"

namespace quire {

class ParseClosing {
 public:
  // No text comes to an end from here within GrammarMatcher::kMostClosingBytes, or the vocabulary
  // cannot spell it.
  static constexpr std::uint32_t kNever = UINT32_MAX;

  // Of what `store` follows; the store has it.
  explicit ParseClosing(ParseStore& store);

  // Tokens of the closing text, without the one that ends the sequence.
  std::uint32_t tokens_to_end(ParseSetId set);
  // Of the tokens in `words`, all of which may come next, leaves out those behind which
  // tokens_to_end() is more than `most`. kResourceExhausted as of ParseStore::fill_mask.
  Status keep_closable(ParseSetId set, std::uint32_t most, std::span<std::uint32_t> words);

 private:
  using RuleBytes = std::pair<std::uint32_t, std::uint32_t>;

  // The first byte of the closing text, or the token that is not text.
  struct Step {
    ParseSetId next = ParseStore::kDead;
    std::uint8_t byte = 0;
    bool is_token = false;
  };
  struct Place {
    std::optional<std::uint32_t> bytes;     // to the end, kNever
    std::optional<std::uint32_t> tokens;    // to the end, kNever
    std::optional<std::uint32_t> farthest;  // tokens to the end behind the next token, at most
    std::optional<Step> step;
    bool has_callers = false;
    // For each rule that is called here: bytes from its end to the text's.
    std::vector<RuleBytes> callers;
  };

  void measure_states();
  Place& place(ParseSetId set);
  std::uint32_t behind_rule(ParseSetId origin, std::uint32_t rule);
  void find_callers(ParseSetId set);
  std::uint32_t bytes_to_end(ParseSetId set);
  std::uint32_t bytes_to_rule_end(std::uint32_t state) const;
  std::uint32_t bytes_behind(const ParseStore::Item& item, std::uint32_t state);
  Step find_step(ParseSetId set);
  std::uint32_t split(ParseSetId set);
  std::string closing_text(ParseSetId set, std::size_t most);
  template <typename Visit>
  Status each_free_token(ParseSetId set, const ParseStore::Item& item, Visit visit);
  template <typename Visit>
  Status each_token(ParseSetId set, std::span<const std::uint32_t> words, Visit visit);

  ParseStore& store_;
  std::vector<std::uint32_t> state_bytes_;  // by state: to the end of its rule
  std::vector<Place> places_;               // by set
};

}  // namespace quire
