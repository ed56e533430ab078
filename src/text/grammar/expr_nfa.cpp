#include "text/grammar/expr_nfa.h"

#include <utility>

namespace quire {

namespace {

// Expressions nest as deeply as whoever builds them makes them; a walk over them goes as deep.
constexpr int kMaxExprDepth = 2000;

Status no_symbols(const GrammarExpr&, std::int32_t, std::int32_t, Nfa&) {
  return Status::invalid_argument(
      "a language that is intersected, excluded or counted refers to a rule or a token",
      "spell out what the rule says");
}

}  // namespace

ExprNfa::ExprNfa(const Grammar& grammar, AddSymbol add_symbol, std::size_t large_states,
                 AddLarge add_large, GrammarBudget& budget)
    : grammar_(&grammar),
      add_symbol_(std::move(add_symbol)),
      large_states_(large_states),
      add_large_(std::move(add_large)),
      budget_(&budget) {}

Status ExprNfa::add_dfa(const std::shared_ptr<const Dfa>& dfa, std::int32_t from, std::int32_t to,
                        Nfa& nfa) {
  if (dfa->num_states() > large_states_) return add_large_(dfa, from, to, nfa);
  nfa.add_dfa(*dfa, from, to);
  return budget_->tick(dfa->num_edges());
}

Status ExprNfa::add(ExprId id, std::int32_t from, std::int32_t to, Nfa& nfa) {
  if (grammar_->exprs[id].depth > kMaxExprDepth) {
    return Status::resource_exhausted("an expression of the grammar is nested too deeply",
                                      "use rules for its parts");
  }
  QUIRE_RETURN_IF_ERROR(budget_->tick());
  QUIRE_RETURN_IF_ERROR(budget_->check_size(nfa.num_states() / 2, nfa.num_edges() / 2));
  const GrammarExpr& expr = grammar_->exprs[id];
  switch (expr.kind) {
    case GrammarExpr::Kind::kRegular:
      return add_dfa(grammar_->languages[expr.index], from, to, nfa);
    case GrammarExpr::Kind::kSequence: {
      if (expr.children.empty()) nfa.add_empty(from, to);
      std::int32_t at = from;
      for (std::size_t i = 0; i < expr.children.size(); ++i) {
        const std::int32_t next = i + 1 < expr.children.size() ? nfa.add_state() : to;
        QUIRE_RETURN_IF_ERROR(add(expr.children[i], at, next, nfa));
        at = next;
      }
      return {};
    }
    case GrammarExpr::Kind::kChoice:
      for (const ExprId child : expr.children) QUIRE_RETURN_IF_ERROR(add(child, from, to, nfa));
      return {};
    case GrammarExpr::Kind::kRepeat:
      return add_repeat(expr, from, to, nfa);
    case GrammarExpr::Kind::kGraph:
      return add_graph(expr, from, to, nfa);
    case GrammarExpr::Kind::kRule:
    case GrammarExpr::Kind::kToken:
    case GrammarExpr::Kind::kNamedToken:
    case GrammarExpr::Kind::kOpen:
      return add_symbol_(expr, from, to, nfa);
    case GrammarExpr::Kind::kAutomaton:
      break;  // nothing but a rule's whole body, which needs no determinizing
  }
  return Status::internal("an expression of no kind");
}

Status ExprNfa::add_graph(const GrammarExpr& expr, std::int32_t from, std::int32_t to, Nfa& nfa) {
  std::vector<std::int32_t> states;
  const auto state_of = [&](std::uint32_t place) {
    while (states.size() <= place) states.push_back(nfa.add_state());
    return states[place];
  };
  nfa.add_empty(from, state_of(0));
  nfa.add_empty(state_of(1), to);
  for (const GrammarEdge& edge : grammar_->graphs[expr.index]) {
    const std::int32_t begin = state_of(edge.from);
    QUIRE_RETURN_IF_ERROR(add(edge.part, begin, state_of(edge.to), nfa));
  }
  return {};
}

Status ExprNfa::add_repeat(const GrammarExpr& expr, std::int32_t from, std::int32_t to, Nfa& nfa) {
  const ExprId part = expr.children[0];
  const bool no_max = expr.max == GrammarExpr::kNoMax;
  const bool simple = no_max ? expr.min <= 1 : expr.max <= 1;
  if (!simple && grammar_->exprs[part].is_regular) {
    QUIRE_ASSIGN_OR_RETURN(const Dfa once, language_of_expr(*grammar_, part, *budget_));
    const auto max = no_max ? std::nullopt : std::optional(expr.max);
    QUIRE_ASSIGN_OR_RETURN(Dfa often, dfa_repeat(once, expr.min, max, *budget_));
    return add_dfa(std::make_shared<const Dfa>(std::move(often)), from, to, nfa);
  }
  std::int32_t at = from;
  const auto add_copy = [&]() -> Status {
    const std::int32_t next = nfa.add_state();
    QUIRE_RETURN_IF_ERROR(add(part, at, next, nfa));
    at = next;
    return {};
  };
  for (std::uint32_t i = 0; i < expr.min; ++i) QUIRE_RETURN_IF_ERROR(add_copy());
  if (no_max) {
    const std::int32_t loop = nfa.add_state();
    nfa.add_empty(at, loop);
    QUIRE_RETURN_IF_ERROR(add(part, loop, loop, nfa));
    nfa.add_empty(loop, to);
    return {};
  }
  for (std::uint32_t i = expr.min; i < expr.max; ++i) {
    nfa.add_empty(at, to);
    QUIRE_RETURN_IF_ERROR(add_copy());
  }
  nfa.add_empty(at, to);
  return {};
}

Result<Dfa> language_of_expr(const Grammar& grammar, ExprId expr, GrammarBudget& budget) {
  if (grammar.exprs[expr].kind == GrammarExpr::Kind::kRegular) {
    return *grammar.languages[grammar.exprs[expr].index];
  }
  ExprNfa builder(grammar, no_symbols, SIZE_MAX, {}, budget);
  Nfa nfa;
  const std::int32_t start = nfa.add_state();
  const std::int32_t accept = nfa.add_state();
  QUIRE_RETURN_IF_ERROR(builder.add(expr, start, accept, nfa));
  return nfa.determinize(start, accept, budget);
}

}  // namespace quire
