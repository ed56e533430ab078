#include "text/grammar/rule_automata.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace quire {

namespace {

constexpr std::uint32_t kInfinite = UINT32_MAX;

// The edges of all rules with states numbered through, and what can be said of states.
class RuleFacts {
 public:
  struct Edge {
    std::uint32_t from = 0;
    std::uint32_t target = 0;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  explicit RuleFacts(const RuleDfas& dfas) : dfas_(&dfas) {
    for (const Dfa& dfa : dfas.rules) {
      starts.push_back(num_states);
      num_states += static_cast<std::uint32_t>(dfa.num_states());
    }
  }

  Status find(GrammarBudget& budget) {
    collect_edges();
    for (std::uint32_t i = 0; i < edges.size(); ++i) by_target_.push_back({edges[i].target, i});
    for (std::uint32_t i = 0; i < edges.size(); ++i) {
      if (is_call(edges[i])) by_callee_.push_back({callee(edges[i]), i});
    }
    std::sort(by_target_.begin(), by_target_.end());
    std::sort(by_callee_.begin(), by_callee_.end());
    QUIRE_RETURN_IF_ERROR(find_heights(budget));
    return find_nullable(budget);
  }

  static bool is_call(const Edge& edge) {
    return edge.first >= kFirstRuleColumn && edge.first < kFirstTokenColumn;
  }
  static std::uint32_t callee(const Edge& edge) { return edge.first - kFirstRuleColumn; }

  bool accepts(std::uint32_t state) const {
    const std::uint32_t rule = rule_of[state];
    return dfas_->rules[rule].accepts(static_cast<std::int32_t>(state - starts[rule]));
  }

  std::uint32_t num_states = 0;
  std::vector<std::uint32_t> starts;   // by rule; of an empty one that of the next
  std::vector<std::uint32_t> rule_of;  // by state
  std::vector<Edge> edges;             // of calls one each
  std::vector<std::uint32_t> height;   // by state, kInfinite: no text comes to an end from there
  std::vector<bool> nullable;          // by state: it, or calls without text, lead to the end

 private:
  using Index = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

  void collect_edges() {
    for (std::uint32_t rule = 0; rule < dfas_->rules.size(); ++rule) {
      const Dfa& dfa = dfas_->rules[rule];
      const std::uint32_t base = starts[rule];
      for (std::uint32_t state = 0; state < dfa.num_states(); ++state) {
        rule_of.push_back(rule);
        for (const DfaEdge& edge : dfa.edges(static_cast<std::int32_t>(state))) {
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

  template <typename Visit>
  static void each(const Index& index, std::uint32_t key, Visit visit) {
    auto at = std::lower_bound(index.begin(), index.end(), std::pair(key, std::uint32_t{0}));
    for (; at != index.end() && at->first == key; ++at) visit(at->second);
  }

  bool is_start(std::uint32_t state) const { return starts[rule_of[state]] == state; }

  // Knuth, "A generalization of Dijkstra's algorithm" (1977): the smallest first.
  Status find_heights(GrammarBudget& budget) {
    using Entry = std::pair<std::uint32_t, std::uint32_t>;  // height, state
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    height.assign(num_states, kInfinite);
    for (std::uint32_t state = 0; state < num_states; ++state) {
      if (accepts(state)) queue.push({0, state});
    }
    const auto offer = [&](const Edge& edge) {
      std::uint32_t value = height[edge.target];
      if (value == kInfinite || height[edge.from] != kInfinite) return;
      if (is_call(edge)) {
        const std::uint32_t inside = rule_height(callee(edge));
        if (inside == kInfinite) return;
        value = std::max(value, inside + 1);
      }
      queue.push({value, edge.from});
    };
    while (!queue.empty()) {
      const auto [value, state] = queue.top();
      queue.pop();
      if (height[state] != kInfinite) continue;
      QUIRE_RETURN_IF_ERROR(budget.tick());
      height[state] = value;
      const auto visit = [&](std::uint32_t edge) { offer(edges[edge]); };
      each(by_target_, state, visit);
      if (is_start(state)) each(by_callee_, rule_of[state], visit);
    }
    return {};
  }

  std::uint32_t rule_height(std::uint32_t rule) const {
    return dfas_->rules[rule].is_empty() ? kInfinite : height[starts[rule]];
  }

  Status find_nullable(GrammarBudget& budget) {
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
    while (!todo.empty()) {
      const std::uint32_t state = todo.back();
      todo.pop_back();
      QUIRE_RETURN_IF_ERROR(budget.tick());
      const auto visit = [&](std::uint32_t index) {
        const Edge& edge = edges[index];
        if (!is_call(edge) || !nullable[edge.target]) return;
        const std::uint32_t rule = callee(edge);
        if (!dfas_->rules[rule].is_empty() && nullable[starts[rule]]) take(edge.from);
      };
      each(by_target_, state, visit);
      if (is_start(state)) each(by_callee_, rule_of[state], visit);
    }
    return {};
  }

  const RuleDfas* dfas_;
  Index by_target_, by_callee_;
};

void find_classes(const RuleFacts& facts, RuleAutomata& automata) {
  std::array<bool, 257> begins{};
  begins[0] = true;
  for (const RuleFacts::Edge& edge : facts.edges) {
    if (edge.first > 255) continue;
    begins[edge.first] = true;
    begins[edge.last + 1] = true;
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
  if (dfas.rules[dfas.root].is_empty() || facts.height[facts.starts[dfas.root]] == kInfinite) {
    return Status::invalid_argument(
        "no text fits the grammar",
        "look for rules that never end, and for demands that contradict each other");
  }
  RuleAutomata automata;
  automata.root = dfas.root;
  for (std::size_t rule = 0; rule < dfas.rules.size(); ++rule) {
    const bool empty = dfas.rules[rule].is_empty();
    const std::uint32_t start = empty ? 0 : facts.starts[rule];
    automata.rules.push_back({.start = start,
                              .height = empty ? kInfinite : facts.height[start],
                              .nullable = !empty && facts.nullable[start]});
  }
  std::size_t at = 0;
  for (std::uint32_t state = 0; state < facts.num_states; ++state) {
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
  find_classes(facts, automata);
  automata.rule_of = std::move(facts.rule_of);
  automata.height = std::move(facts.height);
  for (const std::uint32_t height : automata.height) {
    if (height != kInfinite) automata.max_height = std::max(automata.max_height, height);
  }
  return automata;
}

}  // namespace quire
