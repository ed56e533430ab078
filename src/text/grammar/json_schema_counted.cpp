#include "text/grammar/json_schema_counted.h"

#include <algorithm>

#include "text/grammar/dfa_builder.h"
#include "text/grammar/json_schema_escapes.h"
#include "text/grammar/pair_numbers.h"

namespace quire {
namespace {

bool same_characters(const CharSet& a, const CharSet& b) {
  return std::ranges::equal(a.ranges(), b.ranges());
}

}  // namespace

Result<RuleId> CharacterRules::rule_of(const CharSet& characters, GrammarBuilder& builder) {
  for (const auto& [set, rule] : rules_) {
    if (same_characters(set, characters)) return rule;
  }
  QUIRE_ASSIGN_OR_RETURN(Dfa spelled, json_spellings_of_one(characters, builder.budget()));
  const RuleId rule = builder.add_rule("character");
  builder.define_apart(rule, builder.regular(std::move(spelled)));
  rules_.emplace_back(characters, rule);
  return rule;
}

Result<ExprId> counted_text(const CharacterAutomaton& automaton, std::uint32_t min,
                            std::optional<std::uint32_t> max, CharacterRules& rules,
                            GrammarBuilder& builder) {
  // Columns behind those of bytes are those of `parts`.
  std::vector<RuleId> parts;
  std::vector<std::vector<std::pair<std::uint32_t, std::size_t>>> steps;  // column, target
  for (const auto& edges : automaton.edges) {
    auto& row = steps.emplace_back();
    for (const CharacterEdge& edge : edges) {
      QUIRE_ASSIGN_OR_RETURN(const RuleId rule, rules.rule_of(edge.characters, builder));
      const auto known = std::find(parts.begin(), parts.end(), rule);
      row.emplace_back(kFirstPartColumn + static_cast<std::uint32_t>(known - parts.begin()),
                       edge.target);
      if (known == parts.end()) parts.push_back(rule);
    }
    std::sort(row.begin(), row.end());
  }
  const std::vector<std::uint32_t> rests = shortest_rests(automaton);
  struct Place {
    std::size_t state;
    std::uint32_t count;
  };
  std::vector<Place> places = {{0, 0}};
  const std::size_t counts = std::size_t{max.value_or(min)} + 1;
  PairNumbers numbers(counts, automaton.num_states());
  numbers.of(0, 0) = 0;
  DfaBuilder counted;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    counted.add_state(automaton.accepting[place.state] && place.count >= min);
    // Without a maximum nothing has to be counted from `min` on.
    const std::uint32_t next = max ? place.count + 1 : std::min(place.count + 1, min);
    for (const auto& [column, target] : steps[place.state]) {
      if (max && std::uint64_t{next} + rests[target] > *max) continue;
      std::int32_t& number = numbers.of(next, target);
      if (number < 0) {
        number = static_cast<std::int32_t>(places.size());
        places.push_back({target, next});
      }
      counted.add_edge(column, column, number);
    }
    QUIRE_RETURN_IF_ERROR(builder.budget().tick(steps[place.state].size()));
    QUIRE_RETURN_IF_ERROR(builder.budget().check_size(places.size(), counted.num_edges()));
  }
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, counted.finish(builder.budget()));
  const RuleId rule = builder.add_rule("counted text");
  builder.define_automaton(rule, std::make_shared<const Dfa>(std::move(dfa)), parts);
  return builder.rule(rule);
}

}  // namespace quire
