// Expressions of a grammar as automata. Internal to src/text/grammar.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"
#include "text/grammar/nfa.h"

namespace quire {

// Adds the ways of an expression to an automaton.
class ExprNfa {
 public:
  // What a rule or a token is there: adds its ways.
  using AddSymbol =
      std::function<Status(const GrammarExpr& expr, std::int32_t from, std::int32_t to, Nfa& nfa)>;
  // The same for a language of more than `large_states` states.
  using AddLarge = std::function<Status(const std::shared_ptr<const Dfa>& dfa, std::int32_t from,
                                        std::int32_t to, Nfa& nfa)>;

  ExprNfa(const Grammar& grammar, AddSymbol add_symbol, std::size_t large_states,
          AddLarge add_large, GrammarBudget& budget);

  Status add(ExprId expr, std::int32_t from, std::int32_t to, Nfa& nfa);

 private:
  Status add_dfa(const std::shared_ptr<const Dfa>& dfa, std::int32_t from, std::int32_t to,
                 Nfa& nfa);
  Status add_graph(const GrammarExpr& expr, std::int32_t from, std::int32_t to, Nfa& nfa);
  Status add_repeat(const GrammarExpr& expr, std::int32_t from, std::int32_t to, Nfa& nfa);

  const Grammar* grammar_;
  AddSymbol add_symbol_;
  std::size_t large_states_;
  AddLarge add_large_;
  GrammarBudget* budget_;
};

// kInvalidArgument where the expression has rules or tokens.
Result<Dfa> language_of_expr(const Grammar& grammar, ExprId expr, GrammarBudget& budget);

}  // namespace quire
