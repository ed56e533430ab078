// From nondeterministic automata to deterministic ones. Internal to src/text/grammar.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "text/grammar/dfa_builder.h"
#include "text/grammar/nfa.h"
#include "text/grammar/subsets.h"

namespace quire {

// The subset construction (Rabin and Scott 1959). Of a subset only states count that have edges of
// columns, or accept. Used again for the next automaton, it needs no new memory.
class Determinizer {
 public:
  // Nfa::determinize().
  Result<Dfa> run(const Nfa& nfa, std::int32_t start, std::int32_t accept, GrammarBudget& budget);

 private:
  // The number of the subset that `targets_` and what empty edges reach from there form.
  Result<std::int32_t> take_subset();
  void leave_out_covered();
  // The same for one state; most subsets come from one.
  Result<std::int32_t> take_subset_of(std::int32_t state);
  // Whether nothing else is reached from there without a column, and it counts.
  bool stands_alone(std::int32_t state) const;
  // What most states of literals need: one edge at most, to a state that stands alone. False where
  // there is more to it. No work to count: there are no more such edges than the automaton has.
  bool add_only_edge(std::span<const std::int32_t> subset);
  Status add_edges(std::span<const std::int32_t> subset);
  Status add_overlapping_edges();

  const Nfa* nfa_ = nullptr;
  std::int32_t accept_ = 0;
  GrammarBudget* budget_ = nullptr;
  DfaBuilder builder_;
  Subsets subsets_;
  std::vector<std::uint32_t> seen_;  // by state: the last walk that came by
  std::uint32_t stamp_ = 0;
  std::size_t looked_at_ = 0;  // edges
  static constexpr std::int32_t kUnknownSubset = -1;
  std::vector<std::int32_t> single_;  // by state: the subset that it forms, or kUnknownSubset
  std::vector<std::int32_t> targets_, subset_;
  std::vector<Nfa::Edge> edges_, active_;
  std::vector<std::uint32_t> bounds_;
};

}  // namespace quire
