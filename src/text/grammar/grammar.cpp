#include "text/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/grammar/expr_nfa.h"

namespace quire {

namespace {

using ExprKind = GrammarExpr::Kind;

}  // namespace

void GrammarBuilder::keep(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

ExprId GrammarBuilder::add(GrammarExpr expr) {
  const std::size_t most = budget_->limits().max_expressions;
  if (grammar_.exprs.size() >= most) {
    keep(Status::resource_exhausted(
        fmt::format("the grammar has more than {} expressions (limit max_expressions)", most),
        "use a smaller grammar"));
    return 0;
  }
  keep(budget_->tick());
  expr.is_regular = expr.kind != ExprKind::kRule && expr.kind != ExprKind::kToken &&
                    expr.kind != ExprKind::kNamedToken && expr.kind != ExprKind::kOpen &&
                    expr.kind != ExprKind::kAutomaton;
  for (const ExprId child : expr.children) {
    const GrammarExpr& part = grammar_.exprs[child];
    expr.is_regular = expr.is_regular && part.is_regular;
    expr.depth = std::max(expr.depth, part.depth + 1);
  }
  grammar_.exprs.push_back(std::move(expr));
  return static_cast<ExprId>(grammar_.exprs.size() - 1);
}

ExprId GrammarBuilder::literal(std::string_view bytes) {
  const auto known = literals_.find(bytes);
  if (known != literals_.end()) return known->second;
  const ExprId id = regular(Dfa::literal(bytes));
  literals_.emplace(bytes, id);
  return id;
}

ExprId GrammarBuilder::char_class(const CharSet& set) { return regular(Dfa::char_class(set)); }

ExprId GrammarBuilder::regular(std::shared_ptr<const Dfa> dfa) {
  const std::optional<std::uint32_t> index = add_language(std::move(dfa));
  return index ? add({.kind = ExprKind::kRegular, .index = *index, .children = {}}) : 0;
}

std::optional<std::uint32_t> GrammarBuilder::add_language(std::shared_ptr<const Dfa> dfa) {
  states_ += dfa->num_states();
  edges_ += dfa->num_edges();
  keep(budget_->check_size(states_, edges_));
  if (!status_.ok()) return std::nullopt;
  grammar_.languages.push_back(std::move(dfa));
  return static_cast<std::uint32_t>(grammar_.languages.size() - 1);
}

ExprId GrammarBuilder::open(std::shared_ptr<const OpenAutomaton> automaton) {
  grammar_.open.push_back(std::move(automaton));
  return add({.kind = ExprKind::kOpen,
              .index = static_cast<std::uint32_t>(grammar_.open.size() - 1),
              .children = {}});
}

ExprId GrammarBuilder::seq(std::span<const ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = ExprKind::kSequence, .children = {parts.begin(), parts.end()}});
}

ExprId GrammarBuilder::choice(std::span<const ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = ExprKind::kChoice, .children = {parts.begin(), parts.end()}});
}

ExprId GrammarBuilder::repeat(ExprId part, std::uint32_t min, std::optional<std::uint32_t> max) {
  if (max && *max < min) return nothing();
  if (min == 1 && max && *max == 1) return part;
  return add({.kind = ExprKind::kRepeat,
              .min = min,
              .max = max ? *max : GrammarExpr::kNoMax,
              .children = {part}});
}

ExprId GrammarBuilder::graph(std::vector<GrammarEdge> edges) {
  std::vector<ExprId> parts;
  for (const GrammarEdge& edge : edges) parts.push_back(edge.part);
  grammar_.graphs.push_back(std::move(edges));
  return add({.kind = ExprKind::kGraph,
              .index = static_cast<std::uint32_t>(grammar_.graphs.size() - 1),
              .children = std::move(parts)});
}

ExprId GrammarBuilder::rule(RuleId rule) {
  return add({.kind = ExprKind::kRule, .index = rule, .children = {}});
}

ExprId GrammarBuilder::token(std::string_view name) {
  grammar_.names.emplace_back(name);
  return add({.kind = ExprKind::kNamedToken,
              .index = static_cast<std::uint32_t>(grammar_.names.size() - 1),
              .children = {}});
}

ExprId GrammarBuilder::token(TokenId id) {
  if (id < 0) {
    keep(Status::invalid_argument(fmt::format("the grammar names token {}, which is none", id)));
    return 0;
  }
  return add({.kind = ExprKind::kToken, .index = static_cast<std::uint32_t>(id), .children = {}});
}

RuleId GrammarBuilder::add_rule(std::string_view name) {
  const std::size_t most = budget_->limits().max_rules;
  if (grammar_.rules.size() >= most) {
    keep(Status::resource_exhausted(
        fmt::format("the grammar has more than {} rules (limit max_rules)", most),
        "use a smaller grammar"));
    return 0;
  }
  grammar_.rules.push_back({.name = std::string(name)});
  defined_.push_back(false);
  return static_cast<RuleId>(grammar_.rules.size() - 1);
}

void GrammarBuilder::define(RuleId rule, ExprId body) {
  if (!status_.ok()) return;
  if (defined_[rule]) {
    keep(Status::internal(
        fmt::format("the rule \"{}\" is defined twice", printable(grammar_.rules[rule].name))));
    return;
  }
  grammar_.rules[rule].body = body;
  defined_[rule] = true;
}

void GrammarBuilder::define_apart(RuleId rule, ExprId body) {
  define(rule, body);
  if (status_.ok()) grammar_.rules[rule].apart = true;
}

void GrammarBuilder::define_automaton(RuleId rule, std::shared_ptr<const Dfa> dfa,
                                      std::span<const RuleId> parts) {
  std::vector<ExprId> children;
  for (const RuleId part : parts) children.push_back(this->rule(part));
  const std::optional<std::uint32_t> index = add_language(std::move(dfa));
  if (!index) return;
  define_apart(rule, add({.kind = ExprKind::kAutomaton, .index = *index, .children = children}));
}

Result<Dfa> GrammarBuilder::language_of(ExprId expr) {
  QUIRE_RETURN_IF_ERROR(status_);
  return language_of_expr(grammar_, expr, *budget_);
}

Result<Grammar> GrammarBuilder::build(RuleId root) {
  Grammar grammar = std::exchange(grammar_, {});
  const std::vector<bool> defined = std::exchange(defined_, {});
  literals_.clear();
  states_ = edges_ = 0;
  QUIRE_RETURN_IF_ERROR(std::exchange(status_, {}));
  const auto missing = std::find(defined.begin(), defined.end(), false);
  if (missing != defined.end()) {
    const std::string& name =
        grammar.rules[static_cast<std::size_t>(missing - defined.begin())].name;
    return Status::invalid_argument(
        fmt::format("the grammar has no rule \"{}\", which another one uses", printable(name)));
  }
  grammar.root = root;
  return grammar;
}

}  // namespace quire
