#include "text/grammar/json_schema_counted.h"

#include <algorithm>
#include <unordered_map>

#include "text/grammar/dfa_builder.h"
#include "text/grammar/json_schema_escapes.h"

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
  std::unordered_map<std::uint64_t, std::int32_t> numbers = {{0, 0}};
  DfaBuilder counted;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    counted.add_state(automaton.accepting[place.state] && place.count >= min);
    // Without a maximum nothing has to be counted from `min` on.
    const std::uint32_t next = max ? place.count + 1 : std::min(place.count + 1, min);
    for (const auto& [column, target] : steps[place.state]) {
      if (max && std::uint64_t{next} + rests[target] > *max) continue;
      const std::uint64_t key = std::uint64_t{target} << 32 | next;
      const auto [known, fresh] =
          numbers.try_emplace(key, static_cast<std::int32_t>(numbers.size()));
      if (fresh) places.push_back({target, next});
      counted.add_edge(column, column, known->second);
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
