// The spellings of all names but a few, which most objects have: built as they are, for the way by
// complement and subsets takes most of the time that a schema takes.
#include <algorithm>
#include <span>

#include "text/grammar/automaton_workspace.h"
#include "text/grammar/fixed_dfa.h"
#include "text/grammar/json_schema_escapes.h"

namespace quire {
namespace {

constexpr std::size_t kMaxPlainName = 256;

// Characters with one spelling, of one byte.
bool is_plain(const std::string& text) {
  return text.size() <= kMaxPlainName && std::ranges::all_of(text, [](char c) {
           return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
         });
}

const Dfa& any_spelling() {
  static const Dfa dfa =
      fixed_dfa([](GrammarBudget& budget) { return json_spellings(Dfa::any_text(), budget); });
  return dfa;
}

// The tree of the names, with equal parts of it once, built from its ends on: a minimal automaton,
// as what leads out of it is that of any text.
class OtherNames {
 public:
  OtherNames(const Dfa& any, AutomatonWorkspace& workspace)
      : any_(any), states_(workspace.states), children_(workspace.children) {}

  // The state behind the first `depth` bytes of `names`, which are equal in these, and sorted.
  Result<std::int32_t> add(std::span<const std::string> names, std::size_t depth,
                           GrammarBudget& budget) {
    const bool is_name = names[0].size() == depth;
    const std::size_t first_child = children_.size();
    for (std::size_t at = is_name ? 1 : 0; at < names.size();) {
      const char c = names[at][depth];
      std::size_t end = at;
      while (end < names.size() && names[end][depth] == c) ++end;
      QUIRE_ASSIGN_OR_RETURN(const std::int32_t child,
                             add(names.subspan(at, end - at), depth + 1, budget));
      const auto byte = static_cast<std::uint8_t>(c);
      children_.push_back({byte, byte, child});
      at = end;
    }
    QUIRE_RETURN_IF_ERROR(budget.tick(16 + children_.size() - first_child));
    QUIRE_RETURN_IF_ERROR(budget.check_size(states_.states().num_states(), 0));
    states_.begin(!is_name);
    add_edges(std::span(children_).subspan(first_child));
    children_.resize(first_child);
    return states_.take();
  }

 private:
  // To the children, and with all other bytes to what any text goes on with.
  void add_edges(std::span<const DfaEdge> children) {
    std::size_t at = 0;
    for (const DfaEdge& edge : any_.edges(0)) {
      std::uint32_t from = edge.first;
      for (; at < children.size() && children[at].first <= edge.last; ++at) {
        if (from < children[at].first) states_.add(from, children[at].first - 1, edge.target);
        states_.add(children[at].first, children[at].last, children[at].target);
        from = children[at].last + 1;
      }
      if (from <= edge.last) states_.add(from, edge.last, edge.target);
    }
  }

  const Dfa& any_;
  DistinctStates& states_;
  std::vector<DfaEdge>& children_;  // of the nodes on the way to the one at hand
};

}  // namespace

Result<std::optional<Dfa>> json_spellings_of_others(const std::vector<std::string>& texts,
                                                    GrammarBudget& budget) {
  if (!std::ranges::all_of(texts, is_plain)) return std::optional<Dfa>();
  const Dfa& any = any_spelling();
  if (texts.empty()) return std::optional(any);
  std::size_t expected = any.num_states() + 1;
  for (const std::string& text : texts) expected += text.size();
  AutomatonWorkspace& workspace = budget.workspace();
  DistinctStates& states = workspace.states;
  states.clear(expected);
  workspace.children.clear();
  for (std::int32_t state = 0; state < static_cast<std::int32_t>(any.num_states()); ++state) {
    states.begin(any.accepts(state));
    for (const DfaEdge& edge : any.edges(state)) states.add(edge.first, edge.last, edge.target);
    states.keep();
  }
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t root, OtherNames(any, workspace).add(texts, 0, budget));
  return std::optional(states.states().finish_minimal(root, workspace.numbers, workspace.order));
}

}  // namespace quire
