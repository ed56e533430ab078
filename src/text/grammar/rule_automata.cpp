#include "text/grammar/rule_automata.h"

#include <algorithm>
#include <utility>

#include "text/grammar/index_by_key.h"

namespace quire {

namespace {

constexpr std::uint32_t kInfinite = UINT32_MAX;

// The states of all rules, numbered through, and what can be said of them. Rules that are nothing
// but bytes need no look: from each of their states bytes lead to the end.
class RuleFacts {
 public:
  struct Edge {
    std::uint32_t from = 0;
    std::uint32_t target = 0;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  explicit RuleFacts(const RuleDfas& dfas) : dfas_(&dfas) {
    for (const auto& dfa : dfas.rules) {
      starts.push_back(num_states);
      num_states += static_cast<std::uint32_t>(dfa->num_states());
      regular.push_back(is_regular(*dfa));
    }
  }

  Status find(GrammarBudget& budget) {
    collect_edges();
    const IndexByKey by_target(num_states, edges.size(),
                               [this](std::size_t i) { return edges[i].target; });
    const auto no_rule = static_cast<std::uint32_t>(starts.size());
    const IndexByKey by_callee(starts.size() + 1, edges.size(), [&](std::size_t i) {
      return is_call(edges[i]) ? callee(edges[i]) : no_rule;
    });
    const Incoming incoming{by_target, by_callee};
    QUIRE_RETURN_IF_ERROR(find_heights(incoming, budget));
    return find_nullable(incoming, budget);
  }

  static bool is_call(const Edge& edge) {
    return edge.first >= kFirstRuleColumn && edge.first < kFirstTokenColumn;
  }
  static std::uint32_t callee(const Edge& edge) { return edge.first - kFirstRuleColumn; }

  const Dfa& dfa(std::uint32_t rule) const { return *dfas_->rules[rule]; }
  bool accepts(std::uint32_t state) const {
    const std::uint32_t rule = rule_of[state];
    return dfa(rule).accepts(static_cast<std::int32_t>(state - starts[rule]));
  }
  std::uint32_t rule_height(std::uint32_t rule) const {
    return dfa(rule).is_empty() ? kInfinite : height[starts[rule]];
  }

  std::uint32_t num_states = 0;
  std::vector<std::uint32_t> starts;   // by rule; of an empty one that of the next
  std::vector<bool> regular;           // by rule: it is nothing but bytes
  std::vector<std::uint32_t> rule_of;  // by state
  std::vector<Edge> edges;             // of rules that are not regular; of calls one each
  std::vector<std::uint32_t> height;   // by state, kInfinite: no text comes to an end from there
  std::vector<bool> nullable;          // by state: it, or calls without text, lead to the end

 private:
  // Numbers of `edges`.
  struct Incoming {
    const IndexByKey& by_target;
    const IndexByKey& by_callee;
  };

  static bool is_regular(const Dfa& dfa) {
    for (std::int32_t state = 0; state < static_cast<std::int32_t>(dfa.num_states()); ++state) {
      const std::span<const DfaEdge> its_edges = dfa.edges(state);
      if (!its_edges.empty() && its_edges.back().last >= kFirstRuleColumn) return false;
    }
    return true;
  }

  void collect_edges() {
    rule_of.reserve(num_states);
    for (std::uint32_t rule = 0; rule < starts.size(); ++rule) {
      rule_of.insert(rule_of.end(), dfa(rule).num_states(), rule);
      if (regular[rule]) continue;
      const std::uint32_t base = starts[rule];
      for (std::uint32_t state = 0; state < dfa(rule).num_states(); ++state) {
        for (const DfaEdge& edge : dfa(rule).edges(static_cast<std::int32_t>(state))) {
          const auto target = base + static_cast<std::uint32_t>(edge.target);
          // Columns of bytes and others may lie in one range: they are told apart here.
          if (edge.first < 256) {
            edges.push_back({base + state, target, edge.first, std::min(edge.last, 255U)});
          }
          for (std::uint32_t c = std::max(edge.first, 256U); c <= edge.last; ++c) {
            edges.push_back({base + state, target, c, c});
          }
        }
      }
    }
  }

  bool is_start(std::uint32_t state) const { return starts[rule_of[state]] == state; }

  // Knuth, "A generalization of Dijkstra's algorithm" (1977): the smallest first.
  Status find_heights(const Incoming& incoming, GrammarBudget& budget) {
    std::vector<std::vector<std::uint32_t>> queue(1);  // states by height
    const auto add = [&](std::uint32_t value, std::uint32_t state) {
      if (queue.size() <= value) queue.resize(value + std::size_t{1});
      queue[value].push_back(state);
    };
    height.assign(num_states, kInfinite);
    for (std::uint32_t state = 0; state < num_states; ++state) {
      if (regular[rule_of[state]] && !is_start(state)) {
        height[state] = 0;
      } else if (regular[rule_of[state]] || accepts(state)) {
        add(0, state);
      }
    }
    const auto offer = [&](const Edge& edge) {
      std::uint32_t value = height[edge.target];
      if (value == kInfinite || height[edge.from] != kInfinite) return;
      if (is_call(edge)) {
        const std::uint32_t inside = rule_height(callee(edge));
        if (inside == kInfinite) return;
        value = std::max(value, inside + 1);
      }
      add(value, edge.from);
    };
    for (std::uint32_t value = 0; value < queue.size(); ++value) {
      while (!queue[value].empty()) {
        const std::uint32_t state = queue[value].back();
        queue[value].pop_back();
        if (height[state] != kInfinite) continue;
        QUIRE_RETURN_IF_ERROR(budget.tick());
        height[state] = value;
        for (const std::uint32_t edge : incoming.by_target.of(state)) offer(edges[edge]);
        if (!is_start(state)) continue;
        for (const std::uint32_t edge : incoming.by_callee.of(rule_of[state])) offer(edges[edge]);
      }
    }
    return {};
  }

  Status find_nullable(const Incoming& incoming, GrammarBudget& budget) {
    nullable.assign(num_states, false);
    std::vector<std::uint32_t> todo;
    const auto take = [&](std::uint32_t state) {
      if (nullable[state]) return;
      nullable[state] = true;
      todo.push_back(state);
    };
    for (std::uint32_t state = 0; state < num_states; ++state) {
      if (accepts(state)) take(state);
    }
    const auto look = [&](std::uint32_t index) {
      const Edge& edge = edges[index];
      if (!is_call(edge) || !nullable[edge.target]) return;
      const std::uint32_t rule = callee(edge);
      if (!dfa(rule).is_empty() && nullable[starts[rule]]) take(edge.from);
    };
    while (!todo.empty()) {
      const std::uint32_t state = todo.back();
      todo.pop_back();
      QUIRE_RETURN_IF_ERROR(budget.tick());
      for (const std::uint32_t edge : incoming.by_target.of(state)) look(edge);
      if (!is_start(state)) continue;
      for (const std::uint32_t edge : incoming.by_callee.of(rule_of[state])) look(edge);
    }
    return {};
  }

  const RuleDfas* dfas_;
};

// A rule of bytes alone.
void add_regular_states(const RuleFacts& facts, std::uint32_t rule, RuleAutomata& automata) {
  const Dfa& dfa = facts.dfa(rule);
  for (std::int32_t state = 0; state < static_cast<std::int32_t>(dfa.num_states()); ++state) {
    automata.bytes.add_row();
    automata.calls.add_row();
    automata.tokens.add_row();
    automata.accepting.push_back(dfa.accepts(state));
    for (const DfaEdge& edge : dfa.edges(state)) {
      automata.bytes.add({static_cast<std::uint8_t>(edge.first),
                          static_cast<std::uint8_t>(edge.last),
                          facts.starts[rule] + static_cast<std::uint32_t>(edge.target)});
    }
  }
}

// Its edges are those of `facts` from `at` on.
void add_states(const RuleFacts& facts, std::uint32_t rule, std::size_t& at,
                RuleAutomata& automata) {
  const std::uint32_t begin = facts.starts[rule];
  const auto end = begin + static_cast<std::uint32_t>(facts.dfa(rule).num_states());
  for (std::uint32_t state = begin; state < end; ++state) {
    automata.bytes.add_row();
    automata.calls.add_row();
    automata.tokens.add_row();
    automata.accepting.push_back(facts.accepts(state));
    for (; at < facts.edges.size() && facts.edges[at].from == state; ++at) {
      const RuleFacts::Edge& edge = facts.edges[at];
      if (facts.height[edge.target] == kInfinite) continue;
      if (edge.first < kFirstRuleColumn) {
        automata.bytes.add({static_cast<std::uint8_t>(edge.first),
                            static_cast<std::uint8_t>(edge.last), edge.target});
      } else if (!RuleFacts::is_call(edge)) {
        automata.tokens.add({static_cast<TokenId>(edge.first - kFirstTokenColumn), edge.target});
      } else if (automata.rules[RuleFacts::callee(edge)].height != kInfinite) {
        automata.calls.add({RuleFacts::callee(edge), edge.target});
      }
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
                              .nullable = !empty && facts.nullable[facts.starts[rule]]});
  }
  std::size_t num_edges = 0;
  for (const auto& dfa : dfas.rules) num_edges += dfa->num_edges();
  automata.bytes.reserve(facts.num_states, num_edges);
  automata.calls.reserve(facts.num_states, facts.edges.size());
  automata.tokens.reserve(facts.num_states, 0);
  automata.accepting.reserve(facts.num_states);
  std::size_t at = 0;
  for (std::uint32_t rule = 0; rule < dfas.rules.size(); ++rule) {
    if (facts.regular[rule]) {
      add_regular_states(facts, rule, automata);
    } else {
      add_states(facts, rule, at, automata);
    }
    QUIRE_RETURN_IF_ERROR(budget.tick(facts.dfa(rule).num_edges()));
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
