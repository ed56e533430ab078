#include "text/grammar/grammar_include.h"

#include <optional>
#include <vector>

namespace quire {
namespace {

std::optional<std::uint32_t> most_of(const GrammarExpr& expr) {
  if (expr.max == GrammarExpr::kNoMax) return std::nullopt;
  return expr.max;
}

}  // namespace

ExprId include_grammar(const Grammar& other, GrammarBuilder& builder) {
  std::vector<RuleId> rules;
  for (const GrammarRule& rule : other.rules) rules.push_back(builder.add_rule(rule.name));
  std::vector<ExprId> exprs;
  for (const GrammarExpr& expr : other.exprs) {
    std::vector<ExprId> children;
    for (const ExprId child : expr.children) children.push_back(exprs[child]);
    switch (expr.kind) {
      case GrammarExpr::Kind::kRegular:
        exprs.push_back(builder.regular(other.languages[expr.index]));
        break;
      case GrammarExpr::Kind::kSequence:
        exprs.push_back(builder.seq(children));
        break;
      case GrammarExpr::Kind::kChoice:
        exprs.push_back(builder.choice(children));
        break;
      case GrammarExpr::Kind::kRepeat:
        exprs.push_back(builder.repeat(children[0], expr.min, most_of(expr)));
        break;
      case GrammarExpr::Kind::kGraph: {
        std::vector<GrammarEdge> edges = other.graphs[expr.index];
        for (GrammarEdge& edge : edges) edge.part = exprs[edge.part];
        exprs.push_back(builder.graph(std::move(edges)));
        break;
      }
      case GrammarExpr::Kind::kRule:
        exprs.push_back(builder.rule(rules[expr.index]));
        break;
      case GrammarExpr::Kind::kToken:
        exprs.push_back(builder.token(static_cast<TokenId>(expr.index)));
        break;
      case GrammarExpr::Kind::kNamedToken:
        exprs.push_back(builder.token(other.names[expr.index]));
        break;
      case GrammarExpr::Kind::kOpen:
        exprs.push_back(builder.open(other.open[expr.index]));
        break;
      case GrammarExpr::Kind::kAutomaton:
        exprs.push_back(builder.empty());  // it is all of its rule
        break;
    }
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const GrammarRule& rule = other.rules[i];
    const GrammarExpr& body = other.exprs[rule.body];
    if (body.kind == GrammarExpr::Kind::kAutomaton) {
      std::vector<RuleId> parts;
      for (const ExprId part : body.children) parts.push_back(rules[other.exprs[part].index]);
      builder.define_automaton(rules[i], other.languages[body.index], parts);
    } else if (rule.apart) {
      builder.define_apart(rules[i], exprs[rule.body]);
    } else {
      builder.define(rules[i], exprs[rule.body]);
    }
  }
  return builder.rule(rules[other.root]);
}

}  // namespace quire
