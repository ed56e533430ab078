#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/grammar/expr_nfa.h"
#include "text/grammar/rule_automata.h"

namespace quire {

namespace {

// An automaton with no more states becomes part of those that use it.
constexpr std::size_t kSmallRuleStates = 16;
// A regular part of an expression with more states becomes a rule: determinizing what is around it
// need not look into it, and all its uses are one.
constexpr std::size_t kLargePartStates = 48;

constexpr std::uint32_t kUnordered = UINT32_MAX;

// X = X a | b is b a*. `start` has no way in but the beginning.
Nfa without_left_recursion(const Dfa& dfa, std::uint32_t self, std::int32_t accept) {
  Nfa nfa;
  const auto states = static_cast<std::int32_t>(dfa.num_states());
  for (std::int32_t state = 0; state < accept; ++state) nfa.add_state();
  nfa.add_state();                             // accept
  const std::int32_t start = nfa.add_state();  // accept + 1
  for (std::int32_t state = 0; state < states; ++state) {
    for (const DfaEdge& edge : dfa.edges(state)) {
      nfa.add_edge(state, edge.first, edge.last, edge.target);
      if (state != 0) continue;
      const bool has_self = edge.first <= self && self <= edge.last;
      if (!has_self) {
        nfa.add_edge(start, edge.first, edge.last, edge.target);
        continue;
      }
      if (edge.first < self) nfa.add_edge(start, edge.first, self - 1, edge.target);
      if (edge.last > self) nfa.add_edge(start, self + 1, edge.last, edge.target);
      nfa.add_empty(accept, edge.target);
    }
    if (dfa.accepts(state)) nfa.add_empty(state, accept);
  }
  if (dfa.accepts(0)) nfa.add_empty(start, accept);
  return nfa;
}

// X = a X | b is a* b.
Nfa without_right_recursion(const Dfa& dfa, std::uint32_t self, std::int32_t accept) {
  Nfa nfa;
  const auto states = static_cast<std::int32_t>(dfa.num_states());
  // For each state one more, which has its edges and does not accept: where X must not be the last.
  const auto unaccepting = [&](std::int32_t state) { return accept + 1 + state; };
  for (std::int32_t state = 0; state < unaccepting(states); ++state) nfa.add_state();
  for (std::int32_t state = 0; state < states; ++state) {
    for (const DfaEdge& edge : dfa.edges(state)) {
      for (const std::int32_t from : {state, unaccepting(state)}) {
        if (edge.first > self || edge.last < self || !dfa.accepts(edge.target)) {
          nfa.add_edge(from, edge.first, edge.last, edge.target);
          continue;
        }
        if (edge.first < self) nfa.add_edge(from, edge.first, self - 1, edge.target);
        if (edge.last > self) nfa.add_edge(from, self + 1, edge.last, edge.target);
        nfa.add_edge(from, self, self, unaccepting(edge.target));
        nfa.add_empty(from, 0);
      }
    }
    if (dfa.accepts(state)) nfa.add_empty(state, accept);
  }
  return nfa;
}

class RuleDfaMaker {
 public:
  RuleDfaMaker(const Grammar& grammar, const GrammarVocabulary& vocabulary, GrammarBudget& budget)
      : grammar_(&grammar),
        vocabulary_(&vocabulary),
        budget_(&budget),
        exprs_(
            grammar,
            [this](const GrammarExpr& expr, std::int32_t from, std::int32_t to, Nfa& nfa) {
              return add_symbol(expr, from, to, nfa);
            },
            kLargePartStates,
            [this](const std::shared_ptr<const Dfa>& dfa, std::int32_t from, std::int32_t to,
                   Nfa& nfa) { return add_large_part(dfa, from, to, nfa); },
            budget),
        order_(grammar.rules.size(), kUnordered),
        column_(grammar.rules.size(), 0),
        inlined_(grammar.rules.size(), false) {}

  Result<RuleDfas> run() {
    QUIRE_RETURN_IF_ERROR(visit_all());
    // The root is a rule whatever its size.
    dfas_.rules.assign(num_columns_, std::make_shared<const Dfa>());
    for (RuleId rule = 0; rule < grammar_->rules.size(); ++rule) {
      if (order_[rule] == kUnordered || inlined_[rule]) continue;
      dfas_.rules[column_[rule]] = std::move(made_[rule]);
    }
    for (auto& [hash, part] : large_parts_) dfas_.rules[part.column] = std::move(part.dfa);
    for (const auto& open : dfas_.open) {
      dfas_.rules[open.rule] = std::make_shared<const Dfa>(Dfa::any_byte());
    }
    dfas_.root = column_[grammar_->root];
    return std::move(dfas_);
  }

 private:
  struct LargePart {
    std::shared_ptr<const Dfa> dfa;
    std::uint32_t column = 0;
  };

  // Rules that an expression refers to, each once.
  std::vector<RuleId> callees(RuleId rule) {
    std::vector<RuleId> found;
    std::vector<ExprId> todo = {grammar_->rules[rule].body};
    if (seen_.empty()) seen_.resize(grammar_->exprs.size(), UINT32_MAX);
    while (!todo.empty()) {
      const ExprId id = todo.back();
      todo.pop_back();
      if (seen_[id] == rule) continue;
      seen_[id] = rule;
      const GrammarExpr& expr = grammar_->exprs[id];
      if (expr.kind == GrammarExpr::Kind::kRule) found.push_back(expr.index);
      todo.insert(todo.end(), expr.children.begin(), expr.children.end());
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  // Tarjan's strongly connected components (1972), without recursion: a component's rules are made
  // once all that they use outside of it have been.
  Status visit_all() {
    struct Frame {
      RuleId rule;
      std::vector<RuleId> callees;
      std::size_t next;
    };
    std::vector<Frame> frames;
    std::vector<RuleId> open;
    std::vector<std::uint32_t> low(grammar_->rules.size(), 0);
    std::vector<bool> is_open(grammar_->rules.size(), false);
    std::uint32_t counter = 0;
    const auto enter = [&](RuleId rule) {
      order_[rule] = low[rule] = counter++;
      open.push_back(rule);
      is_open[rule] = true;
      frames.push_back({rule, callees(rule), 0});
    };
    enter(grammar_->root);
    while (!frames.empty()) {
      QUIRE_RETURN_IF_ERROR(budget_->tick());
      Frame& frame = frames.back();
      if (frame.next < frame.callees.size()) {
        const RuleId callee = frame.callees[frame.next++];
        if (order_[callee] == kUnordered) {
          enter(callee);
        } else if (is_open[callee]) {
          low[frame.rule] = std::min(low[frame.rule], order_[callee]);
        }
        continue;
      }
      const RuleId rule = frame.rule;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().rule] = std::min(low[frames.back().rule], low[rule]);
      if (low[rule] != order_[rule]) continue;
      std::vector<RuleId> component;
      do {
        component.push_back(open.back());
        is_open[open.back()] = false;
        open.pop_back();
      } while (component.back() != rule);
      QUIRE_RETURN_IF_ERROR(make(component));
    }
    return {};
  }

  Status make(const std::vector<RuleId>& component) {
    for (const RuleId rule : component) column_[rule] = num_columns_++;
    for (const RuleId rule : component) {
      QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const Dfa> dfa, make_one(rule));
      states_ += dfa->num_states();
      edges_ += dfa->num_edges();
      QUIRE_RETURN_IF_ERROR(budget_->check_size(states_, edges_));
      made_[rule] = std::move(dfa);
    }
    const RuleId rule = component[0];
    const Dfa& dfa = *made_[rule];
    inlined_[rule] = component.size() == 1 && rule != grammar_->root &&
                     !grammar_->rules[rule].apart && dfa.num_states() <= kSmallRuleStates &&
                     !calls(dfa, kFirstRuleColumn + column_[rule]);
    return {};
  }

  // The automaton that `expr` is, with the columns that its parts have here.
  Result<Dfa> with_columns(const GrammarExpr& expr) {
    const Dfa& dfa = *grammar_->languages[expr.index];
    QUIRE_RETURN_IF_ERROR(budget_->tick(dfa.num_edges()));
    return dfa.with_columns([&](const DfaEdge& edge, std::vector<DfaEdge>& edges) {
      if (edge.first < kFirstPartColumn) {
        edges.push_back({edge.first, std::min(edge.last, kFirstPartColumn - 1), edge.target});
      }
      for (std::uint32_t c = std::max(edge.first, kFirstPartColumn); c <= edge.last; ++c) {
        const ExprId part = expr.children[c - kFirstPartColumn];
        const std::uint32_t column = kFirstRuleColumn + column_[grammar_->exprs[part].index];
        edges.push_back({column, column, edge.target});
      }
    });
  }

  static bool calls(const Dfa& dfa, std::uint32_t column) {
    for (std::int32_t state = 0; state < static_cast<std::int32_t>(dfa.num_states()); ++state) {
      if (dfa.next(state, column) != Dfa::kDead) return true;
    }
    return false;
  }

  Result<std::shared_ptr<const Dfa>> make_one(RuleId rule) {
    const ExprId body = grammar_->rules[rule].body;
    const GrammarExpr& expr = grammar_->exprs[body];
    if (expr.kind == GrammarExpr::Kind::kRegular) return grammar_->languages[expr.index];
    QUIRE_ASSIGN_OR_RETURN(Dfa dfa, expr.kind == GrammarExpr::Kind::kAutomaton
                                        ? with_columns(expr)
                                        : of_expression(rule, body));
    return std::make_shared<const Dfa>(std::move(dfa));
  }

  Result<Dfa> of_expression(RuleId rule, ExprId body) {
    nfa_.clear();
    const std::int32_t start = nfa_.add_state();
    const std::int32_t accept = nfa_.add_state();
    QUIRE_RETURN_IF_ERROR(exprs_.add(body, start, accept, nfa_));
    QUIRE_ASSIGN_OR_RETURN(Dfa dfa, nfa_.determinize(start, accept, *budget_));
    const std::uint32_t self = kFirstRuleColumn + column_[rule];
    if (!calls(dfa, self)) return dfa;
    const auto end = [&] { return static_cast<std::int32_t>(dfa.num_states()); };
    if (dfa.next(0, self) != Dfa::kDead) {
      const Nfa looping = without_left_recursion(dfa, self, end());
      QUIRE_ASSIGN_OR_RETURN(dfa, looping.determinize(end() + 1, end(), *budget_));
    }
    if (dfa.is_empty()) return dfa;
    const Nfa looping = without_right_recursion(dfa, self, end());
    return looping.determinize(0, end(), *budget_);
  }

  std::uint32_t open_column(const std::shared_ptr<const OpenAutomaton>& automaton) {
    const auto known = std::ranges::find(dfas_.open, automaton, &RuleAutomata::OpenRule::automaton);
    if (known != dfas_.open.end()) return known->rule;
    dfas_.open.push_back({num_columns_, automaton});
    return num_columns_++;
  }

  Status add_symbol(const GrammarExpr& expr, std::int32_t from, std::int32_t to, Nfa& nfa) {
    std::uint32_t column = 0;
    if (expr.kind == GrammarExpr::Kind::kOpen) {
      column = kFirstRuleColumn + open_column(grammar_->open[expr.index]);
    } else if (expr.kind == GrammarExpr::Kind::kRule) {
      if (inlined_[expr.index]) {
        nfa.add_dfa(*made_[expr.index], from, to);
        return {};
      }
      column = kFirstRuleColumn + column_[expr.index];
    } else {
      QUIRE_ASSIGN_OR_RETURN(const TokenId token, token_of(expr));
      column = kFirstTokenColumn + static_cast<std::uint32_t>(token);
    }
    nfa.add_edge(from, column, column, to);
    return {};
  }

  // A rule of its own, the same for all equal ones.
  Status add_large_part(const std::shared_ptr<const Dfa>& dfa, std::int32_t from, std::int32_t to,
                        Nfa& nfa) {
    QUIRE_RETURN_IF_ERROR(budget_->tick());
    std::uint64_t hash = dfa->num_states();
    for (const DfaEdge& edge : dfa->edges(0)) {
      hash = (hash * 0x9E3779B97F4A7C15U) ^ (edge.first << 8) ^ edge.last;
    }
    std::uint32_t column = num_columns_;
    const auto [first, last] = large_parts_.equal_range(hash);
    for (auto part = first; part != last; ++part) {
      const LargePart& known = part->second;
      if (known.dfa == dfa || *known.dfa == *dfa) column = known.column;
    }
    if (column == num_columns_) {
      ++num_columns_;
      states_ += dfa->num_states();
      edges_ += dfa->num_edges();
      QUIRE_RETURN_IF_ERROR(budget_->check_size(states_, edges_));
      large_parts_.emplace(hash, LargePart{dfa, column});
    }
    nfa.add_edge(from, kFirstRuleColumn + column, kFirstRuleColumn + column, to);
    return {};
  }

  Result<TokenId> token_of(const GrammarExpr& expr) const {
    if (expr.kind == GrammarExpr::Kind::kToken) {
      const auto id = static_cast<TokenId>(expr.index);
      if (vocabulary_->contains(id)) return id;
      return Status::invalid_argument(
          fmt::format("the grammar names token {}, but the vocabulary ends before {}", id,
                      vocabulary_->size()));
    }
    const std::string& name = grammar_->names[expr.index];
    const std::optional<TokenId> id = vocabulary_->find(name);
    if (id) return *id;
    return Status::invalid_argument(
        fmt::format(
            "the grammar names the token \"{}\", which the model's vocabulary does not have",
            printable(name)),
        "write it as text, or use a model that has it");
  }

  const Grammar* grammar_;
  const GrammarVocabulary* vocabulary_;
  GrammarBudget* budget_;
  ExprNfa exprs_;
  Nfa nfa_;  // of the rule at hand
  RuleDfas dfas_;
  std::vector<std::uint32_t> order_;   // in which rules were found, or kUnordered
  std::vector<std::uint32_t> column_;  // of a rule that is found, behind kFirstRuleColumn
  std::vector<bool> inlined_;
  std::map<RuleId, std::shared_ptr<const Dfa>> made_;
  std::multimap<std::uint64_t, LargePart> large_parts_;  // by a hash
  std::uint32_t num_columns_ = 0;
  std::vector<RuleId> seen_;  // by expression: the last rule whose search came by
  std::size_t states_ = 0;
  std::size_t edges_ = 0;
};

}  // namespace

Result<RuleDfas> make_rule_dfas(const Grammar& grammar, const GrammarVocabulary& vocabulary,
                                GrammarBudget& budget) {
  return RuleDfaMaker(grammar, vocabulary, budget).run();
}

}  // namespace quire
