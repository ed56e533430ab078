#include <algorithm>
#include <utility>
#include <vector>

#include "text/grammar/dfa.h"
#include "text/grammar/dfa_builder.h"
#include "text/grammar/nfa.h"
#include "text/grammar/pair_numbers.h"

namespace quire {

namespace {

// The texts of `a` that are of `b` too (`both`), or that are not.
Result<Dfa> product(const Dfa& a, const Dfa& b, bool both, GrammarBudget& budget) {
  if (a.is_empty()) return Dfa();
  if (b.is_empty()) return both ? Dfa() : a;
  using Pair = std::pair<std::int32_t, std::int32_t>;
  std::vector<Pair> pairs;
  PairNumbers numbers(a.num_states(), b.num_states() + 1);
  const auto number_of = [&](Pair pair) {
    std::int32_t& number =
        numbers.of(static_cast<std::size_t>(pair.first), static_cast<std::size_t>(pair.second + 1));
    if (number < 0) {
      number = static_cast<std::int32_t>(pairs.size());
      pairs.push_back(pair);
    }
    return number;
  };
  number_of({0, 0});
  DfaBuilder builder;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Pair pair = pairs[i];
    builder.add_state(a.accepts(pair.first) && b.accepts(pair.second) == both);
    const std::span<const DfaEdge> others =
        pair.second >= 0 ? b.edges(pair.second) : std::span<const DfaEdge>();
    std::size_t at = 0;
    for (const DfaEdge& edge : a.edges(pair.first)) {
      std::uint32_t from = edge.first;
      while (from <= edge.last) {
        while (at < others.size() && others[at].last < from) ++at;
        const bool inside = at < others.size() && others[at].first <= from;
        std::uint32_t to = edge.last;
        if (inside) to = std::min(to, others[at].last);
        if (!inside && at < others.size()) to = std::min(to, others[at].first - 1);
        const std::int32_t other = inside ? others[at].target : Dfa::kDead;
        if (!both || inside) builder.add_edge(from, to, number_of({edge.target, other}));
        from = to + 1;
        QUIRE_RETURN_IF_ERROR(budget.tick());
      }
    }
    QUIRE_RETURN_IF_ERROR(budget.check_size(pairs.size(), builder.num_edges()));
  }
  return builder.finish(budget);
}

// Whether no text is the beginning of another, and nothing leads back to the start: then copies can
// be put one behind the other as they are.
bool can_be_chained(const Dfa& dfa) {
  for (std::int32_t state = 0; state < static_cast<std::int32_t>(dfa.num_states()); ++state) {
    if (dfa.accepts(state) && (state == 0 || !dfa.edges(state).empty())) return false;
    for (const DfaEdge& edge : dfa.edges(state)) {
      if (edge.target == 0) return false;
    }
  }
  return !dfa.is_empty();
}

// `copies` of the automaton one behind the other. The start of copy i accepts where i >= min, the
// end of the last one does. Minimal, for a state tells how many texts may follow.
Dfa chain(const Dfa& dfa, std::uint32_t min, std::uint32_t copies) {
  // In each copy all states but the accepting one, which is the next copy's start.
  const auto states = static_cast<std::int32_t>(dfa.num_states());
  std::vector<std::int32_t> place(dfa.num_states());
  std::int32_t size = 0;
  for (std::int32_t state = 0; state < states; ++state) {
    place[static_cast<std::size_t>(state)] = dfa.accepts(state) ? -1 : size++;
  }
  DfaBuilder builder;
  for (std::uint32_t copy = 0; copy < copies; ++copy) {
    const auto base = static_cast<std::int32_t>(copy) * size;
    for (std::int32_t state = 0; state < states; ++state) {
      if (dfa.accepts(state)) continue;
      builder.add_state(state == 0 && copy >= min);
      for (const DfaEdge& edge : dfa.edges(state)) {
        const std::int32_t to = place[static_cast<std::size_t>(edge.target)];
        builder.add_edge(edge.first, edge.last, to < 0 ? base + size : base + to);
      }
    }
  }
  builder.add_state(true);
  return builder.finish_minimal();
}

}  // namespace

Result<Dfa> dfa_union(std::span<const Dfa> parts, GrammarBudget& budget) {
  if (parts.size() == 1) return parts[0];
  Nfa nfa;
  const std::int32_t start = nfa.add_state();
  const std::int32_t accept = nfa.add_state();
  for (const Dfa& part : parts) {
    nfa.add_dfa(part, start, accept);
    QUIRE_RETURN_IF_ERROR(budget.check_size(nfa.num_states(), nfa.num_edges()));
  }
  return nfa.determinize(start, accept, budget);
}

Result<Dfa> dfa_concat(std::span<const Dfa> parts, GrammarBudget& budget) {
  if (parts.size() == 1) return parts[0];
  Nfa nfa;
  const std::int32_t start = nfa.add_state();
  std::int32_t at = start;
  for (const Dfa& part : parts) {
    const std::int32_t next = nfa.add_state();
    nfa.add_dfa(part, at, next);
    at = next;
    QUIRE_RETURN_IF_ERROR(budget.check_size(nfa.num_states(), nfa.num_edges()));
  }
  return nfa.determinize(start, at, budget);
}

Result<Dfa> dfa_repeat(const Dfa& dfa, std::uint32_t min, std::optional<std::uint32_t> max,
                       GrammarBudget& budget) {
  if (max && *max < min) return Dfa();
  if (dfa.is_empty()) return min == 0 ? Dfa::empty_text() : Dfa();
  if (max && *max == 0) return Dfa::empty_text();
  if (min == 1 && max && *max == 1) return dfa;
  const std::uint64_t copies = max ? *max : std::uint64_t{min} + 1;
  QUIRE_RETURN_IF_ERROR(budget.check_size(copies * dfa.num_states(),
                                          copies * std::max<std::size_t>(dfa.num_edges(), 1)));
  if (max && can_be_chained(dfa)) return chain(dfa, min, *max);
  Nfa nfa;
  const std::int32_t start = nfa.add_state();
  const std::int32_t accept = nfa.add_state();
  std::int32_t at = start;
  for (std::uint64_t copy = 0; copy < copies; ++copy) {
    // A state of its own, so that nothing that leads back into a copy's start is mistaken for its
    // beginning.
    const std::int32_t begin = nfa.add_state();
    const std::int32_t end = nfa.add_state();
    nfa.add_empty(at, begin);
    if (copy >= min) nfa.add_empty(at, accept);
    nfa.add_dfa(dfa, begin, end);
    if (!max && copy + 1 == copies) nfa.add_empty(end, begin);
    if (!max && copy + 1 == copies) nfa.add_empty(end, accept);
    at = end;
    QUIRE_RETURN_IF_ERROR(budget.tick(dfa.num_edges()));
  }
  nfa.add_empty(at, accept);
  return nfa.determinize(start, accept, budget);
}

Result<Dfa> dfa_intersect(const Dfa& a, const Dfa& b, GrammarBudget& budget) {
  return product(a, b, true, budget);
}

Result<Dfa> dfa_difference(const Dfa& a, const Dfa& b, GrammarBudget& budget) {
  return product(a, b, false, budget);
}

Result<Dfa> dfa_complement(const Dfa& dfa, GrammarBudget& budget) {
  return product(Dfa::any_text(), dfa, false, budget);
}

Result<Dfa> dfa_with_any_rest(const Dfa& dfa, GrammarBudget& budget) {
  const Dfa parts[] = {dfa, Dfa::any_text()};
  return dfa_concat(parts, budget);
}

}  // namespace quire
