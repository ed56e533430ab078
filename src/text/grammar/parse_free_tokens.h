// Tokens behind places of open automata where any of many bytes may follow: those of such bytes
// alone are allowed without a look at what they lead to. Internal to src/text/grammar.
#pragma once

#include <string>
#include <vector>

#include "text/grammar/parse_store.h"

namespace quire {

template <typename Visit>
void ParseStore::each_free_token(const Item& item, Visit visit) {
  const OpenAutomaton& automaton = open_.automaton(item.state);
  const std::size_t most = automaton.free_bytes(open_.value(item.state));
  const TokenTrie& trie = vocabulary_->trie();
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  struct Place {
    bool is_free = false;
    ParseSetId set = kNone;  // kNone: of a free place, not looked for yet
  };
  std::vector<Place> path(trie.max_depth() + 1);
  std::string bytes(trie.max_depth(), '\0');
  path[0].is_free = true;
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    Place& at = path[node.depth - std::size_t{1}];
    bytes[node.depth - std::size_t{1}] = static_cast<char>(node.byte);
    Place& next_place = path[node.depth];
    if (at.is_free && node.depth <= most && automaton.is_free(node.byte)) {
      next_place = {.is_free = true, .set = kNone};
    } else {
      if (at.is_free && at.set == kNone) {
        const std::string_view before(bytes.data(), node.depth - std::size_t{1});
        at.set = behind_free_bytes(item, before, before.size() == most);
      }
      const ParseSetId set = at.set == kDead ? kDead : next(at.set, node.byte);
      next_place = {.is_free = false, .set = set};
      if (set == kDead) {
        i = node.end;
        continue;
      }
    }
    ++i;
    if (node.token < 0) continue;
    const ParseSetId behind = next_place.is_free ? kNone : next_place.set;
    visit(node.token, behind);
    if (!trie.has_alike()) continue;
    for (const auto& [token, other] : trie.alike(node.token)) visit(other, behind);
    if (is_overfull()) break;
  }
}

}  // namespace quire
