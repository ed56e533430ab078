// The spellings of all names but a few, which most objects have: built as they are, for the way by
// complement and subsets takes most of the time that a schema takes.
#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "text/grammar/dfa_builder.h"
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

// The tree of the names, with equal parts of it once: a minimal automaton, as what leads out of it
// is that of any text. Parts come before what they are part of.
class NameTree {
 public:
  struct Node {
    bool is_name = false;
    std::vector<std::pair<std::uint8_t, std::size_t>> children;  // sorted
    auto operator<=>(const Node&) const = default;
  };

  explicit NameTree(std::span<const std::string> names) { add(names, 0); }

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  // Of names that are equal up to `depth`.
  std::size_t add(std::span<const std::string> names, std::size_t depth) {
    Node node;
    std::size_t at = 0;
    if (!names.empty() && names[0].size() == depth) {
      node.is_name = true;
      at = 1;
    }
    while (at < names.size()) {
      const char c = names[at][depth];
      std::size_t end = at;
      while (end < names.size() && names[end][depth] == c) ++end;
      node.children.emplace_back(static_cast<std::uint8_t>(c),
                                 add(names.subspan(at, end - at), depth + 1));
      at = end;
    }
    const auto [place, fresh] = numbers_.try_emplace(node, nodes_.size());
    if (fresh) nodes_.push_back(std::move(node));
    return place->second;
  }

  std::vector<Node> nodes_;
  std::map<Node, std::size_t> numbers_;
};

}  // namespace

Result<std::optional<Dfa>> json_spellings_of_others(const std::vector<std::string>& texts,
                                                    GrammarBudget& budget) {
  if (!std::ranges::all_of(texts, is_plain)) return std::optional<Dfa>();
  const Dfa& any = any_spelling();
  if (texts.empty()) return std::optional(any);
  const NameTree tree(texts);
  const std::size_t num_nodes = tree.nodes().size();
  QUIRE_RETURN_IF_ERROR(budget.check_size(num_nodes, num_nodes));
  const auto of_node = [&](std::size_t node) {
    return static_cast<std::int32_t>(num_nodes - 1 - node);  // the root is the last node
  };
  const auto of_any = [&](std::int32_t state) {
    return static_cast<std::int32_t>(num_nodes) + state;
  };
  DfaBuilder builder;
  for (std::size_t i = num_nodes; i-- > 0;) {
    const NameTree::Node& node = tree.nodes()[i];
    builder.add_state(!node.is_name);
    std::size_t at = 0;
    for (const DfaEdge& edge : any.edges(0)) {
      std::uint32_t from = edge.first;
      for (; at < node.children.size() && node.children[at].first <= edge.last; ++at) {
        const auto& [byte, child] = node.children[at];
        if (from < byte) builder.add_edge(from, byte - 1U, of_any(edge.target));
        builder.add_edge(byte, byte, of_node(child));
        from = byte + 1U;
      }
      if (from <= edge.last) builder.add_edge(from, edge.last, of_any(edge.target));
    }
    QUIRE_RETURN_IF_ERROR(budget.tick(16 + node.children.size()));
  }
  for (std::int32_t state = 0; state < static_cast<std::int32_t>(any.num_states()); ++state) {
    builder.add_state(any.accepts(state));
    for (const DfaEdge& edge : any.edges(state)) {
      builder.add_edge(edge.first, edge.last, of_any(edge.target));
    }
  }
  return std::optional(builder.finish_minimal());
}

}  // namespace quire
