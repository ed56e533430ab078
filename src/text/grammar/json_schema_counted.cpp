#include "text/grammar/json_schema_counted.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "text/grammar/automaton_workspace.h"
#include "text/grammar/dfa_builder.h"
#include "text/grammar/json_schema_escapes.h"
#include "text/grammar/pair_numbers.h"

namespace quire {
namespace {

struct Step {
  std::uint32_t column = 0;
  std::size_t target = 0;
};
using Steps = std::vector<std::vector<Step>>;  // by state of a CharacterAutomaton

// Texts of `min` characters or more; behind the first `min` nothing is counted.
Result<Dfa> at_least(const CharacterAutomaton& automaton, const Steps& steps, std::uint32_t min,
                     GrammarBudget& budget) {
  struct Place {
    std::size_t state;
    std::uint32_t count;
  };
  std::vector<Place> places = {{0, 0}};
  PairNumbers numbers(std::size_t{min} + 1, automaton.num_states());
  numbers.of(0, 0) = 0;
  DfaBuilder counted;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    counted.add_state(automaton.accepting[place.state] && place.count == min);
    const std::uint32_t next = std::min(place.count + 1, min);
    for (const Step& step : steps[place.state]) {
      std::int32_t& number = numbers.of(next, step.target);
      if (number < 0) {
        number = static_cast<std::int32_t>(places.size());
        places.push_back({step.target, next});
      }
      counted.add_edge(step.column, step.column, number);
    }
    QUIRE_RETURN_IF_ERROR(budget.tick(steps[place.state].size()));
    QUIRE_RETURN_IF_ERROR(budget.check_size(places.size(), counted.num_edges()));
  }
  return counted.finish(budget);
}

// Texts of `min` to `max` characters. Nothing leads back from a larger count, so that states are
// built from the longest texts on, each behind those that it leads to.
class UpTo {
 public:
  UpTo(const CharacterAutomaton& automaton, const Steps& steps, std::uint32_t max)
      : automaton_(automaton), steps_(steps), max_(max), rests_(shortest_rests(automaton)) {}

  Result<Dfa> run(std::uint32_t min, GrammarBudget& budget) {
    QUIRE_RETURN_IF_ERROR(find_levels(budget));
    AutomatonWorkspace& workspace = budget.workspace();
    DistinctStates& distinct = workspace.states;
    distinct.clear(states_.size());
    std::vector<std::int32_t> here(automaton_.num_states(), Dfa::kDead), behind = here;
    for (std::size_t count = begins_.size() - 1; count-- > 0;) {
      for (std::size_t i = begins_[count]; i < begins_[count + 1]; ++i) {
        const std::size_t state = states_[i];
        distinct.begin(automaton_.accepting[state] && count >= min);
        for (const Step& step : steps_[state]) {
          if (fits(count + 1, step)) distinct.add(step.column, step.column, behind[step.target]);
        }
        here[state] = distinct.take();
      }
      QUIRE_RETURN_IF_ERROR(budget.tick(begins_[count + 1] - begins_[count]));
      here.swap(behind);
    }
    return distinct.states().finish_minimal(behind[0], workspace.numbers, workspace.order);
  }

 private:
  // Whether a text of at most `max_` characters goes on so.
  bool fits(std::size_t count, const Step& step) const {
    return count + rests_[step.target] <= max_;
  }

  Status find_levels(GrammarBudget& budget) {
    std::vector<std::size_t> seen(automaton_.num_states(), 0);  // the largest count so far
    std::size_t num_edges = 0;
    states_ = {0};
    begins_ = {0, 1};
    for (std::size_t count = 1; count <= max_ && states_.size() > begins_[count - 1]; ++count) {
      for (std::size_t i = begins_[count - 1]; i < begins_[count]; ++i) {
        for (const Step& step : steps_[states_[i]]) {
          if (!fits(count, step)) continue;
          ++num_edges;
          if (std::exchange(seen[step.target], count) != count) states_.push_back(step.target);
        }
      }
      begins_.push_back(states_.size());
      QUIRE_RETURN_IF_ERROR(budget.tick(states_.size() - begins_[count]));
      QUIRE_RETURN_IF_ERROR(budget.check_size(states_.size(), num_edges));
    }
    return {};
  }

  const CharacterAutomaton& automaton_;
  const Steps& steps_;
  std::size_t max_;
  std::vector<std::uint32_t> rests_;
  // Those that so many characters lead to, from begins_[count] on: levels, one behind the other.
  std::vector<std::size_t> states_, begins_;
};

}  // namespace

Result<RuleId> CharacterRules::rule_of(const CharSet& characters, GrammarBuilder& builder) {
  for (const auto& [set, rule] : rules_) {
    if (set == characters) return rule;
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
  Steps steps;
  for (const auto& edges : automaton.edges) {
    auto& row = steps.emplace_back();
    for (const CharacterEdge& edge : edges) {
      QUIRE_ASSIGN_OR_RETURN(const RuleId rule, rules.rule_of(edge.characters, builder));
      const auto known = std::find(parts.begin(), parts.end(), rule);
      row.push_back(
          {kFirstPartColumn + static_cast<std::uint32_t>(known - parts.begin()), edge.target});
      if (known == parts.end()) parts.push_back(rule);
    }
    std::ranges::sort(row, {}, &Step::column);
  }
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, max ? UpTo(automaton, steps, *max).run(min, builder.budget())
                                      : at_least(automaton, steps, min, builder.budget()));
  const RuleId rule = builder.add_rule("counted text");
  builder.define_automaton(rule, std::make_shared<const Dfa>(std::move(dfa)), parts);
  return builder.rule(rule);
}

}  // namespace quire
