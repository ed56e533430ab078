// Regular languages of bytes, as minimal deterministic automata, and their algebra.
//
// Two automata are equal exactly if they have the same language: they have only states on a way
// from the start to an accepting state, equivalent ones merged, numbered in the order in which
// bytes reach them.
//
// Determinization by subsets (Rabin and Scott 1959). Minimization by strongly connected components
// (Tarjan 1972), those first that others lead to: states on no circle are equal where their edges
// are (Revuz 1992); those of a component by refinement (Moore 1956), or, where that takes many
// looks at all of them, by refinement of states and transitions, O(edges log states) with
// transitions missing (Hopcroft 1971; Valmari, "Fast brief practical DFA minimization", 2012).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/char_set.h"
#include "text/grammar/limits.h"

namespace quire {

// Columns first..last lead to `target`. Columns 0..255 are bytes. Automata of rules have further
// ones, for a rule or a token; the languages of this header have none.
struct DfaEdge {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::int32_t target = 0;
  friend bool operator==(const DfaEdge&, const DfaEdge&) = default;
};

class Dfa {
 public:
  static constexpr std::int32_t kDead = -1;

  Dfa() = default;  // no text at all
  static Dfa nothing() { return {}; }
  static Dfa empty_text();
  static Dfa literal(std::string_view bytes);
  static Dfa char_class(const CharSet& set);  // one character, in UTF-8
  static Dfa any_byte();
  // Any number of characters, valid UTF-8.
  static const Dfa& any_text();

  bool is_empty() const { return accepting_.empty(); }
  std::size_t num_states() const { return accepting_.size(); }
  std::size_t num_edges() const { return edges_.size(); }
  // kDead where the language is empty, else 0.
  std::int32_t start() const { return is_empty() ? kDead : 0; }
  bool accepts(std::int32_t state) const {
    return state >= 0 && accepting_[static_cast<std::size_t>(state)] != 0;
  }
  std::int32_t next(std::int32_t state, std::uint32_t column) const;
  // Sorted by column, not overlapping, neighbours with one target joined.
  std::span<const DfaEdge> edges(std::int32_t state) const {
    const auto index = static_cast<std::size_t>(state);
    return {edges_.data() + begins_[index], edges_.data() + begins_[index + 1]};
  }
  bool matches(std::string_view text) const;
  // The texts, in the order of their bytes, where there are at most `most`; nullopt where there are
  // more.
  std::optional<std::vector<std::string>> texts(std::size_t most) const;
  // The shortest text, among those the first by bytes; nullopt where the language is empty.
  std::optional<std::string> shortest() const;

  // The same states, with each edge replaced by those that `add(edge, edges)` appends: no edges are
  // joined and no states numbered anew, so that equality does not tell whether languages are equal.
  template <typename Add>
  Dfa with_columns(Add add) const {
    Dfa dfa;
    dfa.accepting_ = accepting_;
    dfa.begins_.reserve(begins_.size());
    dfa.edges_.reserve(edges_.size());
    for (std::size_t state = 0; state < num_states(); ++state) {
      const auto begin = static_cast<std::ptrdiff_t>(dfa.edges_.size());
      dfa.begins_.push_back(static_cast<std::uint32_t>(begin));
      for (const DfaEdge& edge : edges(static_cast<std::int32_t>(state))) add(edge, dfa.edges_);
      const auto before = [](const DfaEdge& a, const DfaEdge& b) { return a.first < b.first; };
      if (!std::is_sorted(dfa.edges_.begin() + begin, dfa.edges_.end(), before)) {
        std::sort(dfa.edges_.begin() + begin, dfa.edges_.end(), before);
      }
    }
    dfa.begins_.push_back(static_cast<std::uint32_t>(dfa.edges_.size()));
    return dfa;
  }

  friend bool operator==(const Dfa&, const Dfa&) = default;

 private:
  friend class DfaBuilder;

  std::vector<std::uint32_t> begins_;  // of each state's edges; one more than there are states
  std::vector<DfaEdge> edges_;
  std::vector<std::uint8_t> accepting_;  // 1 or 0: bytes, which take less time than bits
};

// Each of these: kResourceExhausted by name where `budget` has a limit, kCancelled.
Result<Dfa> dfa_union(std::span<const Dfa> parts, GrammarBudget& budget);
Result<Dfa> dfa_concat(std::span<const Dfa> parts, GrammarBudget& budget);
// At least `min` times, at most `max` times or any number. Where no text of `dfa` is the beginning
// of another one (a character, a date) that takes time linear in the result, however large.
Result<Dfa> dfa_repeat(const Dfa& dfa, std::uint32_t min, std::optional<std::uint32_t> max,
                       GrammarBudget& budget);
Result<Dfa> dfa_intersect(const Dfa& a, const Dfa& b, GrammarBudget& budget);
Result<Dfa> dfa_difference(const Dfa& a, const Dfa& b, GrammarBudget& budget);
// Valid UTF-8 that is not of `dfa`.
Result<Dfa> dfa_complement(const Dfa& dfa, GrammarBudget& budget);
// All texts of which one of `dfa` is the beginning and valid UTF-8 the rest.
Result<Dfa> dfa_with_any_rest(const Dfa& dfa, GrammarBudget& budget);

}  // namespace quire
