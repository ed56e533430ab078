// Nondeterministic automata, on the way to minimal ones. Internal to src/text/grammar.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "text/grammar/char_set.h"
#include "text/grammar/dfa.h"
#include "text/grammar/limits.h"

namespace quire {

// States are numbers from 0. Columns as in DfaEdge.
class Nfa {
 public:
  void clear() {
    heads_.clear();
    edges_.clear();
    first_covering_ = past_covering_ = 0;
  }
  std::int32_t add_state() {
    heads_.push_back(-1);
    return static_cast<std::int32_t>(heads_.size() - 1);
  }
  void add_edge(std::int32_t from, std::uint32_t first, std::uint32_t last, std::int32_t target) {
    std::int32_t& head = heads_[static_cast<std::size_t>(from)];
    edges_.push_back({first, last, target, head});
    head = static_cast<std::int32_t>(edges_.size() - 1);
  }
  void add_empty(std::int32_t from, std::int32_t target) { add_edge(from, kEmpty, kEmpty, target); }
  // A way from `from` to `to` for each text of `dfa`, or each character of `set` in UTF-8.
  void add_dfa(const Dfa& dfa, std::int32_t from, std::int32_t to);
  void add_chars(const CharSet& set, std::int32_t from, std::int32_t to);

  // Whatever leads to the end from a state that a text leads to beside one of first..past - 1 leads
  // there from that one too: determinizing goes on with those alone.
  void set_covering(std::int32_t first, std::int32_t past) {
    first_covering_ = first;
    past_covering_ = past;
  }
  bool has_covering() const { return first_covering_ < past_covering_; }
  bool is_covering(std::int32_t state) const {
    return state >= first_covering_ && state < past_covering_;
  }
  std::int32_t first_covering() const { return first_covering_; }
  std::int32_t past_covering() const { return past_covering_; }

  std::size_t num_states() const { return heads_.size(); }
  std::size_t num_edges() const { return edges_.size(); }

  struct Edge {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::int32_t target = 0;
    std::int32_t next = -1;  // of the same state, or -1
  };
  static constexpr std::uint32_t kEmpty = UINT32_MAX;
  std::int32_t first_edge(std::int32_t state) const {
    return heads_[static_cast<std::size_t>(state)];
  }
  const Edge& edge(std::int32_t index) const { return edges_[static_cast<std::size_t>(index)]; }

  // The minimal automaton of the ways from `start` to `accept`.
  Result<Dfa> determinize(std::int32_t start, std::int32_t accept, GrammarBudget& budget) const;

 private:
  std::vector<std::int32_t> heads_;
  std::vector<Edge> edges_;
  std::int32_t first_covering_ = 0;
  std::int32_t past_covering_ = 0;
};

}  // namespace quire
