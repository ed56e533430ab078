#include "text/grammar/rule_automata.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

constexpr std::uint32_t kInfinite = UINT32_MAX;

// The states of all rules, numbered through, and what can be said of them. Rules that are nothing
// but bytes need no look: from each of their states bytes lead to the end.
class RuleFacts {
 public:
  explicit RuleFacts(const RuleDfas& dfas) : dfas_(&dfas) {
    for (const auto& dfa : dfas.rules) {
      starts.push_back(num_states);
      num_states += static_cast<std::uint32_t>(dfa->num_states());
      regular.push_back(is_regular(*dfa));
    }
    rule_of.reserve(num_states);
    height.reserve(num_states);
    for (std::uint32_t rule = 0; rule < starts.size(); ++rule) {
      rule_of.insert(rule_of.end(), dfa(rule).num_states(), rule);
      height.insert(height.end(), dfa(rule).num_states(), regular[rule] ? 0 : kInfinite);
      nullable.push_back(regular[rule] && dfa(rule).accepts(dfa(rule).start()));
      rule_heights_.push_back(regular[rule] && !dfa(rule).is_empty() ? 0 : kInfinite);
    }
    used_rules_.assign(starts.size(), false);
  }

  // Rule by rule, each from its end on, and mostly once, as rules come behind those that they call.
  // Again where something changes that was used before.
  Status find(GrammarBudget& budget) {
    bool again = true;
    while (again) {
      again = false;
      for (std::uint32_t rule = 0; rule < starts.size(); ++rule) {
        if (regular[rule]) continue;
        const std::uint32_t height_before = rule_height(rule);
        const bool nullable_before = nullable[rule];
        QUIRE_RETURN_IF_ERROR(look_at(rule, budget));
        const bool same = rule_height(rule) == height_before && nullable[rule] == nullable_before;
        if (!same && used_rules_[rule]) again = true;
      }
    }
    return {};
  }

  const Dfa& dfa(std::uint32_t rule) const { return *dfas_->rules[rule]; }
  std::uint32_t rule_height(std::uint32_t rule) const { return rule_heights_[rule]; }
  // The columns of an edge that are no bytes, one by one.
  template <typename Visit>
  static void each_symbol(const DfaEdge& edge, Visit visit) {
    for (std::uint32_t c = std::max(edge.first, kFirstRuleColumn); c <= edge.last; ++c) visit(c);
  }

  std::uint32_t num_states = 0;
  std::vector<std::uint32_t> starts;   // by rule; of an empty one that of the next
  std::vector<bool> regular;           // by rule: it is nothing but bytes
  std::vector<bool> nullable;          // by rule: it, or calls without text, lead to the end
  std::vector<std::uint32_t> rule_of;  // by state
  std::vector<std::uint32_t> height;   // by state, kInfinite: no text comes to an end from there

 private:
  static bool is_regular(const Dfa& dfa) {
    for (std::int32_t state = 0; state < static_cast<std::int32_t>(dfa.num_states()); ++state) {
      const std::span<const DfaEdge> its_edges = dfa.edges(state);
      if (!its_edges.empty() && its_edges.back().last >= kFirstRuleColumn) return false;
    }
    return true;
  }

  // Whether all edges are calls of rules that are nothing but bytes, at least one: texts that are
  // counted, which have most states.
  bool calls_bytes_alone(const Dfa& its) const {
    for (std::int32_t state = 0; state < static_cast<std::int32_t>(its.num_states()); ++state) {
      for (const DfaEdge& edge : its.edges(state)) {
        if (edge.first < kFirstRuleColumn || edge.last >= kFirstTokenColumn) return false;
        for (std::uint32_t symbol = edge.first; symbol <= edge.last; ++symbol) {
          const std::uint32_t callee = symbol - kFirstRuleColumn;
          if (!regular[callee] || nullable[callee] || dfa(callee).is_empty()) return false;
        }
      }
    }
    return true;
  }

  // Looks at a rule's states, each behind those that it leads to, and notes that order. Those that
  // lead back are the sources of circles.
  void look_in_order(std::uint32_t rule) {
    const Dfa& its = dfa(rule);
    progress_.assign(its.num_states(), Progress::kNew);
    order_.clear();
    sources_.clear();
    frames_.clear();
    const auto enter = [&](std::int32_t state) {
      progress_[static_cast<std::size_t>(state)] = Progress::kOpen;
      const std::span<const DfaEdge> edges = its.edges(state);
      frames_.push_back({edges.data(), edges.data() + edges.size(), state, false});
    };
    enter(0);
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.next != frame.end) {
        const std::int32_t target = (frame.next++)->target;
        const Progress progress = progress_[static_cast<std::size_t>(target)];
        if (progress == Progress::kOpen) frame.leads_back = true;
        if (progress == Progress::kNew) enter(target);
        continue;
      }
      progress_[static_cast<std::size_t>(frame.state)] = Progress::kDone;
      order_.push_back(frame.state);
      if (frame.leads_back) sources_.push_back(frame.state);
      look_at_state(rule, frame.state);
      frames_.pop_back();
    }
  }

  Status look_at(std::uint32_t rule, GrammarBudget& budget) {
    const Dfa& its = dfa(rule);
    if (its.is_empty()) return {};
    if (calls_bytes_alone(its)) {
      for (std::int32_t state = 0; state < static_cast<std::int32_t>(its.num_states()); ++state) {
        height[starts[rule] + static_cast<std::size_t>(state)] = its.accepts(state) ? 0 : 1;
      }
      rule_heights_[rule] = height[starts[rule]];
      nullable[rule] = its.accepts(0);
      return budget.tick(its.num_states() + its.num_edges());
    }
    empty_.assign(its.num_states(), 0);
    look_in_order(rule);
    for (bool again = true; again;) {
      again = false;
      for (const std::int32_t state : sources_) {
        if (look_at_state(rule, state)) again = true;
      }
      QUIRE_RETURN_IF_ERROR(budget.tick(its.num_states() + its.num_edges()));
      if (!again) break;
      for (const std::int32_t state : order_) look_at_state(rule, state);
    }
    nullable[rule] = empty_[0] != 0;
    return {};
  }

  // Whether something changes.
  bool look_at_state(std::uint32_t rule, std::int32_t number) {
    const auto state = static_cast<std::size_t>(number);
    const bool accepts = dfa(rule).accepts(number);
    std::uint32_t least = accepts ? 0 : kInfinite;
    bool empty = accepts;
    for (const DfaEdge& edge : dfa(rule).edges(number)) {
      const auto target = static_cast<std::size_t>(edge.target);
      const std::uint32_t rest = height[starts[rule] + target];
      if (edge.first < kFirstRuleColumn) least = std::min(least, rest);
      each_symbol(edge, [&](std::uint32_t symbol) {
        if (symbol >= kFirstTokenColumn) {
          least = std::min(least, rest);
          return;
        }
        const std::uint32_t callee = symbol - kFirstRuleColumn;
        const std::uint32_t inside = rule_height(callee);
        if (callee >= rule) used_rules_[callee] = true;
        if (inside != kInfinite) least = std::min(least, std::max(rest, inside + 1));
        empty = empty || (nullable[callee] && empty_[target] != 0);
      });
    }
    std::uint32_t& known = height[starts[rule] + state];
    const bool changed = least != known || empty != (empty_[state] != 0);
    known = least;
    if (state == 0) rule_heights_[rule] = least;
    empty_[state] = empty ? 1 : 0;
    return changed;
  }

  enum class Progress : std::uint8_t { kNew, kOpen, kDone };
  struct Frame {
    const DfaEdge* next = nullptr;
    const DfaEdge* end = nullptr;
    std::int32_t state = 0;
    bool leads_back = false;
  };

  const RuleDfas* dfas_;
  std::vector<std::uint32_t> rule_heights_;  // kInfinite: no text
  std::vector<bool> used_rules_;             // by those that come before it, or by itself
  // Of the rule at hand: its states as look_in_order() has them, those of them that lead back, and
  // by state whether calls without text lead to the end.
  std::vector<std::int32_t> order_, sources_;
  std::vector<std::uint8_t> empty_;
  std::vector<Progress> progress_;
  std::vector<Frame> frames_;
};

void add_states(const RuleFacts& facts, std::uint32_t rule, RuleAutomata& automata) {
  const Dfa& dfa = facts.dfa(rule);
  for (std::int32_t state = 0; state < static_cast<std::int32_t>(dfa.num_states()); ++state) {
    automata.bytes.add_row();
    automata.calls.add_row();
    automata.tokens.add_row();
    automata.accepting.push_back(dfa.accepts(state));
    if (facts.regular[rule]) {
      for (const DfaEdge& edge : dfa.edges(state)) {
        automata.bytes.add({static_cast<std::uint8_t>(edge.first),
                            static_cast<std::uint8_t>(edge.last),
                            facts.starts[rule] + static_cast<std::uint32_t>(edge.target)});
      }
      continue;
    }
    for (const DfaEdge& edge : dfa.edges(state)) {
      const std::uint32_t target = facts.starts[rule] + static_cast<std::uint32_t>(edge.target);
      if (facts.height[target] == kInfinite) continue;
      if (edge.first < kFirstRuleColumn) {
        const std::uint32_t last = std::min(edge.last, kFirstRuleColumn - 1);
        automata.bytes.add(
            {static_cast<std::uint8_t>(edge.first), static_cast<std::uint8_t>(last), target});
      }
      RuleFacts::each_symbol(edge, [&](std::uint32_t symbol) {
        if (symbol >= kFirstTokenColumn) {
          automata.tokens.add({static_cast<TokenId>(symbol - kFirstTokenColumn), target});
        } else if (facts.rule_height(symbol - kFirstRuleColumn) != kInfinite) {
          automata.calls.add({symbol - kFirstRuleColumn, target});
        }
      });
    }
  }
}

void find_classes(RuleAutomata& automata) {
  std::array<bool, 257> begins{};
  begins[0] = true;
  for (const RuleAutomata::ByteEdge& edge : automata.bytes.values()) {
    begins[edge.first] = true;
    begins[edge.last + std::size_t{1}] = true;
  }
  for (const RuleAutomata::OpenRule& open : automata.open) {
    for (const char byte : open.automaton->alphabet()) {
      const auto value = static_cast<unsigned char>(byte);
      begins[value] = begins[value + std::size_t{1}] = true;
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (begins[byte]) automata.class_member.push_back(static_cast<std::uint8_t>(byte));
    automata.class_of[byte] = static_cast<std::uint8_t>(automata.class_member.size() - 1);
  }
}

}  // namespace

Result<RuleAutomata> make_rule_automata(const RuleDfas& dfas, GrammarBudget& budget) {
  RuleFacts facts(dfas);
  QUIRE_RETURN_IF_ERROR(facts.find(budget));
  if (facts.rule_height(dfas.root) == kInfinite) {
    return Status::invalid_argument(
        "no text fits the grammar",
        "look for rules that never end, and for demands that contradict each other");
  }
  RuleAutomata automata;
  automata.root = dfas.root;
  for (std::uint32_t rule = 0; rule < dfas.rules.size(); ++rule) {
    const bool empty = facts.dfa(rule).is_empty();
    automata.rules.push_back({.start = empty ? 0 : facts.starts[rule],
                              .height = facts.rule_height(rule),
                              .nullable = facts.nullable[rule]});
  }
  std::size_t num_edges = 0;
  for (const auto& dfa : dfas.rules) num_edges += dfa->num_edges();
  automata.bytes.reserve(facts.num_states, num_edges);
  automata.calls.reserve(facts.num_states, 0);
  automata.tokens.reserve(facts.num_states, 0);
  automata.accepting.reserve(facts.num_states);
  for (std::uint32_t rule = 0; rule < dfas.rules.size(); ++rule) {
    add_states(facts, rule, automata);
    QUIRE_RETURN_IF_ERROR(budget.tick(facts.dfa(rule).num_edges()));
  }
  automata.open = dfas.open;
  for (std::uint32_t i = 0; i < automata.open.size(); ++i) {
    automata.rules[automata.open[i].rule].start = facts.num_states + i;
  }
  find_classes(automata);
  automata.rule_of = std::move(facts.rule_of);
  automata.height = std::move(facts.height);
  for (const std::uint32_t height : automata.height) {
    if (height != kInfinite) automata.max_height = std::max(automata.max_height, height);
  }
  return automata;
}

}  // namespace quire
